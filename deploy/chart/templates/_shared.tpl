{{/* What several workloads share. Every pod is in the host's network: it runs before there is another. */}}

{{- define "netloom.selector" -}}
app.kubernetes.io/name: netloom
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "netloom.labels" -}}
{{ include "netloom.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "netloom.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "netloom.pullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where metrics and health are served, and where a probe finds them. */}}
{{- define "netloom.listen" -}}
{{ contains ":" .Values.metrics.address | ternary (printf "[%s]" .Values.metrics.address) .Values.metrics.address }}
{{- end }}

{{- define "netloom.probe" -}}
{{ get (dict "0.0.0.0" "127.0.0.1" "::" "::1") .Values.metrics.address | default .Values.metrics.address | quote }}
{{- end }}

{{/* Where the API is, for those who talk to it. */}}
{{- define "netloom.apiServer" -}}
{{- if .Values.apiServer.host -}}
- { name: KUBERNETES_SERVICE_HOST, value: {{ .Values.apiServer.host | quote }} }
- { name: KUBERNETES_SERVICE_PORT, value: {{ .Values.apiServer.port | quote }} }
{{- else if eq .Values.services.mode "native" }}
{{- fail "\n\nset apiServer.host to an address of the Kubernetes API that every node reaches (--set apiServer.host=ADDRESS; kubeadm: the host of `kubectl cluster-info`).\nwith services.mode native the cluster address of the API is served by Netloom, which cannot start through itself" }}
{{- end }}
{{- end }}

{{- define "netloom.env" -}}
- { name: RUST_LOG, value: {{ .Values.logLevel | quote }} }
- { name: NODE_NAME, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }
- { name: HOST_IP, valueFrom: { fieldRef: { fieldPath: status.hostIP } } }
- { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
- { name: NETLOOM_DATABASES, value: {{ .Release.Namespace }}/netloom-ovn }
{{- end }}

{{/* No more than a process that only talks needs. */}}
{{- define "netloom.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Databases and controllers: on control planes if there are any, and on nodes that wait for their network. */}}
{{- define "netloom.central" -}}
affinity:
  nodeAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        preference:
          matchExpressions:
            - { key: node-role.kubernetes.io/control-plane, operator: Exists }
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "netloom.selector" . | nindent 12 }}
tolerations:
  - { key: node-role.kubernetes.io/control-plane, operator: Exists }
  - { key: netloom.io/not-ready, operator: Exists }
  # Without effect, so also NoExecute: a node is not ready until these run.
  - { key: node.kubernetes.io/not-ready, operator: Exists }
  - { key: node.kubernetes.io/network-unavailable, operator: Exists }
  - { key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists }
  {{- with .root.Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* An object that is there only while a hook runs; kept if it failed, for its log, until the next try. */}}
{{- define "netloom.hook" -}}
labels:
  {{- include "netloom.labels" (dict "root" .root "component" "uninstall") | nindent 2 }}
annotations:
  helm.sh/hook: {{ .job.hook }}
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
