# Brings up the node `node1` with a logical network, as the lab and the controller would. Run inside its namespaces.
# With BARE the switch's database is empty and the uplink has the node's addresses, as before anything is installed.
mkdir -p /run/openvswitch /run/ovn /run/netns /var/log/openvswitch /var/log/ovn /etc/ovn
rm -f /etc/openvswitch/conf.db
ip link set lo up
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-tool create /etc/ovn/nb.db /usr/share/ovn/ovn-nb.ovsschema
ovsdb-tool create /etc/ovn/sb.db /usr/share/ovn/ovn-sb.ovsschema
daemon="--detach --no-chdir --log-file"
ovsdb-server $daemon --pidfile --remote=punix:/run/openvswitch/db.sock /etc/openvswitch/conf.db 2>/dev/null
ovsdb-server --detach --no-chdir --log-file=/var/log/ovn/nb.log --pidfile=/run/ovn/nb.pid --unixctl=/run/ovn/nb.ctl \
  --remote=punix:/run/ovn/ovnnb_db.sock /etc/ovn/nb.db 2>/dev/null
ovsdb-server --detach --no-chdir --log-file=/var/log/ovn/sb.log --pidfile=/run/ovn/sb.pid --unixctl=/run/ovn/sb.ctl \
  --remote=punix:/run/ovn/ovnsb_db.sock /etc/ovn/sb.db 2>/dev/null
[ -n "$BARE" ] || ovs-vsctl --no-wait init -- set open_vswitch . external_ids:system-id=node1 external_ids:hostname=node1 \
  external_ids:ovn-remote=unix:/run/ovn/ovnsb_db.sock external_ids:ovn-encap-type=geneve \
  external_ids:ovn-encap-ip=172.30.0.2 external_ids:ovn-bridge-datapath-type=netdev \
  external_ids:ovn-bridge-mappings=external:br-ex ${TSO:+other_config:userspace-tso-enable=true}
ovn-nbctl init
ovn-sbctl init
if [ -n "$BARE" ]; then
  # It detaches once it has something to do.
  ovs-vswitchd --disable-system $daemon --pidfile >/dev/null 2>&1 &
else
  ovs-vswitchd --disable-system $daemon --pidfile 2>/dev/null
fi
ovn-northd $daemon --pidfile --ovnnb-db=unix:/run/ovn/ovnnb_db.sock --ovnsb-db=unix:/run/ovn/ovnsb_db.sock 2>/dev/null

# The wire, with a host outside at its other end.
ip netns add outside
ip link add uplink type veth peer name wire netns outside
ip -n outside link set lo up
ip -n outside addr add 172.30.0.1/24 dev wire
ip -n outside addr add fd30::1/64 dev wire nodad
ip -n outside link set wire up
ip netns exec outside ethtool -K wire tx off >/dev/null
if [ -n "$BARE" ]; then
  ip link set uplink address 0a:00:00:00:00:02 mtu 1490 up
  ip addr add 172.30.0.2/24 dev uplink
  ip addr add fd30::2/64 dev uplink nodad
  ip route add default via 172.30.0.1 dev uplink proto dhcp src 172.30.0.2 metric 100
  ip route add 203.0.113.0/24 via 172.30.0.1 dev uplink table 77
  ip route add default via fd30::1
else
ovs-vsctl add-br br-int -- set bridge br-int datapath_type=netdev fail-mode=secure
ovs-vsctl add-br br-ex -- set bridge br-ex datapath_type=netdev other_config:hwaddr=0a:00:00:00:00:02 -- add-port br-ex uplink
nft add table netdev wire
nft 'add chain netdev wire uplink { type filter hook ingress device "uplink" priority 0; policy drop; }'
ip link set uplink up
ip addr add 172.30.0.2/24 dev br-ex
ip addr add fd30::2/64 dev br-ex nodad
ip link set br-ex up
ip route add default via 172.30.0.1
ip route add default via fd30::1
fi

# The node's subnet and management port, and the way out, as the controller would write them.
ovn-nbctl lr-add cluster-router -- ls-add node1 -- ls-add join \
  -- lrp-add cluster-router to-node1 0a:58:0a:f4:01:01 10.244.1.1/24 fd00:10:244:1::1/64 \
  -- lsp-add node1 from-node1 -- lsp-set-type from-node1 router -- lsp-set-addresses from-node1 router \
  -- lsp-set-options from-node1 router-port=to-node1 \
  -- lrp-add cluster-router to-join 0a:58:64:40:00:01 100.64.0.1/16 fd98::1/64 \
  -- lsp-add join from-join -- lsp-set-type from-join router -- lsp-set-addresses from-join router \
  -- lsp-set-options from-join router-port=to-join \
  -- lr-add gateway:node1 -- set logical_router gateway:node1 options:chassis=node1 \
  -- lrp-add gateway:node1 gateway-join 0a:58:64:40:00:02 100.64.0.2/16 fd98::2/64 \
  -- lsp-add join join-gateway -- lsp-set-type join-gateway router -- lsp-set-addresses join-gateway router \
  -- lsp-set-options join-gateway router-port=gateway-join \
  -- lrp-add gateway:node1 gateway-external 0a:00:00:00:00:02 172.30.0.2/24 fd30::2/64 \
  -- ls-add external:node1 \
  -- lsp-add external:node1 external-gateway -- lsp-set-type external-gateway router \
  -- lsp-set-addresses external-gateway router -- lsp-set-options external-gateway router-port=gateway-external \
  -- lsp-add external:node1 external:node1 -- lsp-set-type external:node1 localnet \
  -- lsp-set-addresses external:node1 unknown -- lsp-set-options external:node1 network_name=external
ovn-nbctl lr-route-add cluster-router 0.0.0.0/0 100.64.0.2 -- lr-route-add cluster-router ::/0 fd98::2 \
  -- lr-route-add gateway:node1 10.244.0.0/16 100.64.0.1 -- lr-route-add gateway:node1 fd00:10:244::/48 fd98::1 \
  -- lr-route-add gateway:node1 0.0.0.0/0 172.30.0.1 -- lr-route-add gateway:node1 ::/0 fd30::1 \
  -- lr-nat-add gateway:node1 snat 172.30.0.2 10.244.0.0/16 -- lr-nat-add gateway:node1 snat fd30::2 fd00:10:244::/48
ovn-nbctl lsp-add node1 management_node1 \
  -- lsp-set-addresses management_node1 '0a:58:0a:f4:01:02 10.244.1.2 fd00:10:244:1::2' \
  -- set logical_switch_port management_node1 options:requested-chassis=node1 \
     'external_ids:"netloom.io/owner"="Node/node1"' \
     'external_ids:"netloom.io/addresses"="10.244.1.2/24,fd00:10:244:1::2/64"' \
     'external_ids:"netloom.io/gateways"="10.244.1.1,fd00:10:244:1::1"' \
     'external_ids:"netloom.io/routes"="10.244.0.0/16,fd00:10:244::/48"'
[ -n "$BARE" ] || ovn-controller $daemon --pidfile unix:/run/openvswitch/db.sock 2>/dev/null
