//! Questions about pods on networks, beside those that are asked by the addresses everybody knows them by.

use std::net::IpAddr;

use netloom_network::ipam::Mac;
use netloom_policy::{Name, Source, Target};
use serde_json::Value;

use super::{PORTS, PROTOCOLS, name};
use crate::questions::{Expected, Question};
use crate::world::{Compiler, Port};
use netloom_lab_fixtures::generate::Random;

/// A question from a pod to one on a network.
pub fn question(random: &mut Random, compiler: &Compiler, one: &Value, to: Port) -> Option<Question> {
    let from = compiler.pod_port(one);
    if from.name == to.name {
        return None;
    }
    let own = |port: &Port| [port.addresses.clone(), port.on_network.clone()].concat();
    let neighbours = from.switch == to.switch;
    let (kind, expected, sources, destinations, next_hop): (_, _, Vec<IpAddr>, Vec<IpAddr>, Mac) = if neighbours {
        match random.below(8) {
            // On the link all addresses of both are known.
            0..=2 => (
                "neighbours",
                Expected::VerdictByAddress,
                from.on_network.clone(),
                to.on_network.clone(),
                to.mac,
            ),
            3 | 4 => ("neighbours", Expected::VerdictByAddress, own(&from), own(&to), to.mac),
            // The router does not take what is for the link.
            5 => (
                "never from the network by its router",
                Expected::Nobody,
                from.on_network.clone(),
                own(&to),
                from.router,
            ),
            _ => (
                "never to the network by its router",
                Expected::Nobody,
                own(&from),
                to.on_network.clone(),
                from.router,
            ),
        }
    } else {
        // The address of somebody in another network, who has it there alone.
        let next_hop = if random.chance(70) { from.router } else { to.mac };
        (
            "never into another network",
            Expected::NoPod,
            own(&from),
            to.on_network.clone(),
            next_hop,
        )
    };
    let destination = *random.pick(&destinations);
    let sources: Vec<IpAddr> = sources.into_iter().filter(|ip| ip.is_ipv4() == destination.is_ipv4()).collect();
    if sources.is_empty() {
        return None;
    }
    let source = *random.pick(&sources);
    let (namespace, pod) = to.name.split_once('/').unwrap();
    Some(Question {
        kind,
        expected,
        ask: netloom_policy::Question {
            from: Source::Pod(name(one)),
            to: Target::Pod(Name::new(namespace, pod)),
            protocol: *random.pick(PROTOCOLS),
            port: *random.pick(PORTS),
        },
        from,
        source,
        destination,
        next_hop,
        arrives: Some(to.name),
    })
}
