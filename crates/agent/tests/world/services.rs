//! Services as the controller would write them: the service port, load balancers and an announcer.

use super::{Pod, World};

/// Where node ports are served behind the gateway, per family.
pub const NODE_PORT_ADDRESSES: [&str; 2] = ["100.64.255.254", "fd98::ffff:ffff:ffff:ffff"];
/// The MAC of the announcer.
pub const ANNOUNCED_MAC: &str = "0a:6c:6f:01:02:03";

/// A service on port 80 with one pod that listens on 8080.
pub struct Service {
    pub pod: Pod,
}

impl World {
    /// A node with its agent and service port. Its reverse path filter is strict, as some distributions have it, and it
    /// forwards IPv6, which older kernels cannot do for single devices.
    pub fn with_services() -> Self {
        let world = Self::ready();
        world.sh("sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv6.conf.all.forwarding=1");
        world.sh("ovn-nbctl set logical_router gateway:node1 options:lb_force_snat_ip=router_ip \
               -- lr-route-add cluster-router 172.30.0.2/32 10.244.1.2 \
               -- lr-route-add cluster-router fd30::2/128 fd00:10:244:1::2 \
               -- lsp-add node1 service_node1 \
               -- lsp-set-addresses service_node1 '0a:58:0a:f4:01:03 10.244.1.3 fd00:10:244:1::3' \
               -- set logical_switch_port service_node1 options:requested-chassis=node1 \
                  'external_ids:\"netloom.io/addresses\"=\"10.244.1.3/24,fd00:10:244:1::3/64\"' \
                  'external_ids:\"netloom.io/gateways\"=\"10.244.1.1,fe80::858:aff:fef4:101\"'");
        world.serve_natively();
        world.sh("ovs-vsctl --timeout=20 wait-until interface netloom1 external_ids:ovn-installed=true");
        world
    }

    /// OVN serves services.
    pub fn serve_natively(&self) {
        let [four, six] = NODE_PORT_ADDRESSES;
        self.set_service_gateway("native", &format!("10.96.0.0/16,fd00:10:96::/112,{four}/32,{six}/128"));
    }

    /// kube-proxy serves services.
    pub fn serve_with_kube_proxy(&self) {
        self.set_service_gateway("kube-proxy", "");
    }

    fn set_service_gateway(&self, gateway: &str, routes: &str) {
        self.sh(&format!(
            "ovn-nbctl set logical_switch_port service_node1 'external_ids:\"netloom.io/service-gateway\"=\"{gateway}\"' \
             'external_ids:\"netloom.io/routes\"=\"{routes}\"'"
        ));
    }

    /// A service with cluster addresses, node port 30080 and external addresses 172.30.0.200 and fd30::200.
    pub fn service(&self) -> Service {
        let pod = self.pod("web", 20);
        self.add(&pod);
        self.serve_tcp(&pod, 8080);
        let [four, six] = NODE_PORT_ADDRESSES;
        let backends = [format!("{}:8080", pod.ip4()), format!("[{}]:8080", pod.ip6())];
        let with_backends = |vips: &[String; 2]| format!("\"{}\"=\"{}\",\"{}\"=\"{}\"", vips[0], backends[0], vips[1], backends[1]);
        let outer = [
            with_backends(&["172.30.0.200:80".to_owned(), "[fd30::200]:80".to_owned()]),
            with_backends(&[format!("{four}:30080"), format!("[{six}]:30080")]),
        ]
        .join(",");
        let cluster = with_backends(&["10.96.0.50:80".to_owned(), "[fd00:10:96::50]:80".to_owned()]);
        self.balance("service_default_web_tcp", "", &format!("{cluster},{outer}"));
        self.balance("service_default_web_tcp_gateway", "", &outer);
        Service { pod }
    }

    /// A load balancer of `service_NAMESPACE_NAME_PROTOCOL`, named like the controller's: on the node's gateway, or on its switch if its name
    /// does not say so.
    pub fn balance(&self, name: &str, options: &str, vips: &str) {
        let words: Vec<&str> = name.split('_').collect();
        let option = |key: &str, value: &str| format!("'options:\"{key}\"=\"{value}\"'");
        let (options, place) = if words.get(4) == Some(&"gateway") {
            let mut known = vec![
                "options:neighbor_responder=none".to_owned(),
                option("netloom.io/service", &format!("{}/{}", words[1], words[2])),
            ];
            if let Some(["node", node]) = words.get(5..7) {
                known.push(option("netloom.io/node", node));
            }
            (format!("{} {options}", known.join(" ")), "logical_router gateway:node1")
        } else {
            (options.to_owned(), "logical_switch node1")
        };
        self.sh(&format!(
            "ovn-nbctl --id=@lb create load_balancer name={name} protocol=tcp {options} 'vips={{{vips}}}' \
             -- add {place} load_balancer @lb"
        ));
    }

    /// Announces the service's external addresses. OVN is not told to do so of its own accord (`nat-addresses`): what is
    /// seen on the wire without being asked for is the agent's.
    pub fn announce(&self) {
        self.sh(&format!(
            "ovn-nbctl ls-add announce -- lsp-add announce uplink_announce -- lsp-set-type uplink_announce localnet \
               -- lsp-set-addresses uplink_announce unknown -- lsp-set-options uplink_announce network_name=external \
               -- lr-add announcer_default_web \
               -- lrp-add announcer_default_web announcer_default_web_port {ANNOUNCED_MAC} 172.30.0.200/24 fd30::200/64 \
               -- lsp-add announce announce_default_web -- lsp-set-type announce_default_web router \
               -- lsp-set-addresses announce_default_web router \
               -- lsp-set-options announce_default_web router-port=announcer_default_web_port \
               -- ha-chassis-group-add announcer_default_web
             ovn-nbctl ha-chassis-group-add-chassis announcer_default_web node1 100
             ovn-nbctl set logical_router_port announcer_default_web_port \
               ha_chassis_group=$(ovn-nbctl --bare --columns=_uuid find ha_chassis_group name=announcer_default_web)"
        ));
    }

    /// Whether a TCP connection from the host outside is accepted.
    pub fn outside_connects(&self, address: &str, port: u16) -> bool {
        self.holds(&format!("ip netns exec outside nc -z -w 1 {address} {port}"))
    }

    /// Whether a TCP connection from the node itself is accepted.
    pub fn node_connects(&self, address: &str, port: u16) -> bool {
        self.holds(&format!("nc -z -w 1 {address} {port}"))
    }

    /// Everything the agent has set up on the node for services, as text.
    pub fn service_state(&self) -> String {
        self.sh("nft list table inet netloom
             ip rule; ip -6 rule; ip route; ip -6 route
             for family in -4 -6; do ip $family route show table all | sed -n '/ table 27759 /p; / table 27760 /p'; done
             ip addr show netloom1; ovs-ofctl dump-flows --no-stats br-ex | sort")
    }
}
