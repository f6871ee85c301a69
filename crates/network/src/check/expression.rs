//! OVN's expression language, as far as our rows use it: a match in, a tree out. Rules about matches look at the tree, never at the text.
//!
//! What this does not know is an error, so that a new field or predicate is added here on purpose.

mod tokens;

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::check::expression::tokens::{Token, tokens};
use crate::ipam::Mac;

/// Predicates, and fields of one bit, that stand alone.
const PREDICATES: [&str; 16] = [
    "ip",
    "ip4",
    "ip6",
    "tcp",
    "udp",
    "sctp",
    "icmp4",
    "icmp6",
    "igmp",
    "eth.mcast",
    "ct.trk",
    "ct.new",
    "ct.est",
    "ct.rpl",
    "ct_mark.natted",
    "flags.loopback",
];

/// Fields of numbers.
const NUMBERS: [&str; 6] = ["tcp.src", "tcp.dst", "udp.src", "udp.dst", "sctp.src", "sctp.dst"];

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// All of them, joined by `&&`.
    All(Vec<Self>),
    /// One of them, joined by `||`.
    Any(Vec<Self>),
    /// The opposite.
    Not(Box<Self>),
    /// A predicate, or a field of one bit.
    Predicate(String),
    /// A field compared with constants, of which one has to fit.
    Compare(Comparison),
}

/// A field compared with constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) field: String,
    pub(crate) relation: Relation,
    pub(crate) values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    /// `<`, `<=`, `>` or `>=`.
    Order,
}

/// A constant, or the name of a set of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Address(IpNet),
    Mac(Mac),
    Text(String),
    /// `$name`, an address set.
    Set(String),
    /// `@name`, a port group.
    Group(String),
}

impl Expression {
    /// Reads a match; the error says what OVN would refuse.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            next: 0,
        };
        let expression = parser.expression()?;
        match parser.peek() {
            None => Ok(expression),
            Some(token) => Err(format!("{token:?} is left over")),
        }
    }

    /// Every comparison in it, and whether it counts the other way round.
    pub(crate) fn comparisons(&self) -> Vec<(&Comparison, bool)> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::comparisons).collect(),
            Self::Not(inner) => inner
                .comparisons()
                .into_iter()
                .map(|(compared, negated)| (compared, !negated))
                .collect(),
            Self::Predicate(_) => Vec::new(),
            Self::Compare(comparison) => vec![(comparison, false)],
        }
    }

    /// Fields and predicates it speaks of.
    pub(crate) fn fields(&self) -> BTreeSet<&str> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::fields).collect(),
            Self::Not(inner) => inner.fields(),
            Self::Predicate(name) => BTreeSet::from([name.as_str()]),
            Self::Compare(comparison) => BTreeSet::from([comparison.field.as_str()]),
        }
    }

    /// What has to hold in any case, without what is only one of several ways.
    pub(crate) fn conjuncts(&self) -> Vec<&Self> {
        match self {
            Self::All(parts) => parts.iter().flat_map(Self::conjuncts).collect(),
            other => vec![other],
        }
    }

    /// Whether no packet can match both, as far as can be seen from what each compares with constants.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.conjuncts(), other.conjuncts());
        let apart = |a: &Self, b: &Self| match (a, b) {
            (Self::Compare(a), Self::Compare(b)) => a.is_disjoint(b),
            _ => false,
        };
        mine.iter().any(|a| theirs.iter().any(|b| apart(a, b)))
    }
}

impl Comparison {
    fn is_disjoint(&self, other: &Self) -> bool {
        let family = |field: &str| ["ip4.", "ip6."].into_iter().find(|family| field.starts_with(family));
        if let (Some(a), Some(b)) = (family(&self.field), family(&other.field))
            && a != b
        {
            return true;
        }
        let apart = |a: &Value, b: &Value| match (a, b) {
            (Value::Address(a), Value::Address(b)) => !a.contains(b) && !b.contains(a),
            (Value::Set(_) | Value::Group(_), _) | (_, Value::Set(_) | Value::Group(_)) => false,
            (a, b) => a != b,
        };
        let all_apart = || self.values.iter().all(|a| other.values.iter().all(|b| apart(a, b)));
        match (self.relation, other.relation) {
            _ if self.field != other.field => false,
            (Relation::Equal, Relation::Equal) => all_apart(),
            (Relation::Equal, Relation::NotEqual) | (Relation::NotEqual, Relation::Equal) => self.values == other.values,
            _ => false,
        }
    }

    /// What OVN would refuse about the constants.
    fn complaint(&self) -> Option<String> {
        let fits = |value: &Value| match (self.field.as_str(), value) {
            ("inport" | "outport", Value::Text(_) | Value::Group(_)) => true,
            ("ip4.src" | "ip4.dst", Value::Address(range)) => range.addr().is_ipv4(),
            ("ip6.src" | "ip6.dst", Value::Address(range)) => range.addr().is_ipv6(),
            ("ip4.src" | "ip4.dst" | "ip6.src" | "ip6.dst" | "eth.src" | "eth.dst", Value::Set(_)) => true,
            ("eth.src" | "eth.dst", Value::Mac(_)) => true,
            (field, Value::Number(number)) => NUMBERS.contains(&field) && *number <= 0xffff,
            _ => false,
        };
        let stray = self.values.iter().find(|value| !fits(value))?;
        Some(format!("{stray:?} is no constant for the field {}", self.field))
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Result<Token, String> {
        let token = self.peek().cloned().ok_or("it ends too early")?;
        self.next += 1;
        Ok(token)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    /// Terms joined by one of the operators; OVN refuses both side by side.
    fn expression(&mut self) -> Result<Expression, String> {
        let first = self.term()?;
        let (operator, join): (Token, fn(Vec<Expression>) -> Expression) = match self.peek() {
            Some(Token::And) => (Token::And, Expression::All),
            Some(Token::Or) => (Token::Or, Expression::Any),
            _ => return Ok(first),
        };
        let mut terms = vec![first];
        while self.takes(&operator) {
            terms.push(self.term()?);
        }
        match self.peek() {
            Some(Token::And | Token::Or) => Err("&& and || need parentheses between them".to_owned()),
            _ => Ok(join(terms)),
        }
    }

    fn term(&mut self) -> Result<Expression, String> {
        match self.take()? {
            Token::Not => Ok(Expression::Not(Box::new(self.term()?))),
            Token::Open => {
                let inner = self.expression()?;
                if self.takes(&Token::Close) {
                    Ok(inner)
                } else {
                    Err("a parenthesis is not closed".to_owned())
                }
            }
            Token::Name(name) => self.named(name),
            other => Err(format!("{other:?} stands where a field has to")),
        }
    }

    fn named(&mut self, field: String) -> Result<Expression, String> {
        let Some(Token::Relation(relation)) = self.peek().cloned() else {
            return if PREDICATES.contains(&field.as_str()) {
                Ok(Expression::Predicate(field))
            } else {
                Err(format!("{field} is no predicate"))
            };
        };
        self.next += 1;
        let comparison = Comparison {
            field,
            relation,
            values: self.values()?,
        };
        match comparison.complaint() {
            Some(why) => Err(why),
            None => Ok(Expression::Compare(comparison)),
        }
    }

    fn values(&mut self) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        let set = self.takes(&Token::OpenSet);
        loop {
            match self.take()? {
                Token::Value(value) => values.push(value),
                other => return Err(format!("{other:?} stands where a constant has to")),
            }
            if !set || self.takes(&Token::CloseSet) {
                return Ok(values);
            }
            self.takes(&Token::Comma);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Expression {
        Expression::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn matches_become_trees() {
        let Expression::All(parts) = parse("outport == @g && (ip4.src == {$a, 10.0.0.0/8} || ip6.src == fd00::1) && !ct.new") else {
            panic!("it is a conjunction");
        };
        let address = |text: &str| Value::Address(text.parse().unwrap());
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[1].fields(), BTreeSet::from(["ip4.src", "ip6.src"]));
        assert_eq!(
            parts[1].comparisons()[0].0.values,
            [Value::Set("a".to_owned()), address("10.0.0.0/8")]
        );
        assert_eq!(parts[1].comparisons()[1].0.values, [address("fd00::1/128")]);
        assert_eq!(parts[2], Expression::Not(Box::new(Expression::Predicate("ct.new".to_owned()))));
        parse("inport == \"management_node-1\" && ip4.src == {10.244.0.0/16,100.64.0.0/16}");
        parse("eth.dst == 0a:4e:00:00:00:01 && (tcp.dst >= 80 && tcp.dst <= 0x5a)");
    }

    #[test]
    fn what_ovn_refuses_is_an_error() {
        for text in [
            "",
            "ip &&",
            "ip && tcp || udp",
            "(ip",
            "ip4.src == fd00::1",
            "ip6.src == {}",
            "tcp.dst == 70000",
            "inport == 7",
            "inport == \"open",
            "tpc.dst == 80",
            "tpc",
            "ip4.src == 10.0.0.300",
            "ip ip",
            "ip4.src == ; ip",
        ] {
            assert!(Expression::parse(text).is_err(), "{text} was read");
        }
    }

    #[test]
    fn matches_that_no_packet_has_both_of_are_disjoint() {
        let disjoint = |a: &str, b: &str| parse(a).is_disjoint(&parse(b));
        assert!(disjoint("inport == \"a\" && ip", "inport == \"b\" && ip"));
        assert!(disjoint("ip4.src == 10.0.0.0/24", "ip4.src == {10.0.1.0/24, 10.0.2.0/24}"));
        assert!(disjoint("ip4.src == 10.0.0.0/24", "ip6.dst == fd00::/64"));
        assert!(disjoint("ip4.src == 10.0.0.1", "ip4.src != 10.0.0.1"));
        assert!(!disjoint("ip4.src == 10.0.0.0/24", "ip4.dst == 10.0.1.0/24"));
        assert!(!disjoint("ip4.src == 10.0.0.0/24", "ip4.src == 10.0.0.7"));
        assert!(!disjoint("ip4.src == $a", "ip4.src == $b"));
        assert!(!disjoint("(inport == \"a\" || ip)", "inport == \"b\""));
    }
}
