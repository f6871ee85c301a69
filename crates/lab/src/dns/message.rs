//! DNS messages as bytes (RFC 1035, with the size of EDNS, RFC 6891): queries in, responses out.
//!
//! Only what a server of its own names needs. [`Query::decode`] is total: any bytes give a query, a refusal to send back, or nothing.
//! Names are kept in lower case, because DNS compares them so; the question goes back as it came, because some clients compare that.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest name on the wire.
const LONGEST_NAME: usize = 255;
/// What every client can take over UDP.
const SMALLEST_DATAGRAM: usize = 512;
/// What passes unfragmented over any path of a lab, tunnels included.
const LARGEST_DATAGRAM: usize = 1232;
/// Length of a message's header.
const HEADER: usize = 12;

/// Types of records, as numbers on the wire.
pub mod kind {
    /// IPv4 address.
    pub const A: u16 = 1;
    /// Name server.
    pub const NS: u16 = 2;
    /// The name's real name.
    pub const CNAME: u16 = 5;
    /// Who is responsible for a zone.
    pub const SOA: u16 = 6;
    /// The name of an address.
    pub const PTR: u16 = 12;
    /// Text.
    pub const TXT: u16 = 16;
    /// IPv6 address.
    pub const AAAA: u16 = 28;
    /// Host and port of a service.
    pub const SRV: u16 = 33;
    /// What else a client can do (EDNS).
    pub const OPT: u16 = 41;
    /// Whatever there is.
    pub const ANY: u16 = 255;
}

/// How a question ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The name exists; whether the records asked for do, the answer section says.
    NoError = 0,
    /// The message is not one.
    FormatError = 1,
    /// No answer at the moment.
    ServerFailure = 2,
    /// There is no such name.
    NoSuchName = 3,
    /// A kind of request that this server does not know.
    NotImplemented = 4,
    /// A question this server does not answer.
    Refused = 5,
}

/// A name: its labels in lower case, first one first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub Vec<String>);

impl Name {
    /// The name written with dots.
    pub fn new(text: &str) -> Self {
        let labels = text.split('.').filter(|label| !label.is_empty());
        Name(labels.map(str::to_ascii_lowercase).collect())
    }

    /// The labels before `suffix`, if the name ends with it.
    pub fn below(&self, suffix: &[&str]) -> Option<Vec<&str>> {
        let count = self.0.len().checked_sub(suffix.len())?;
        let (labels, end) = self.0.split_at(count);
        (end == suffix).then(|| labels.iter().map(String::as_str).collect())
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.", self.0.join("."))
    }
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    id: u16,
    recursion: bool,
    question: Vec<u8>,
    edns: Option<u16>,
    /// The name asked for.
    pub name: Name,
    /// Type of the records asked for.
    pub kind: u16,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the fields have the names the standards give them
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(Name),
    Ns(Name),
    Ptr(Name),
    Srv {
        weight: u16,
        port: u16,
        target: Name,
    },
    Soa {
        server: Name,
        contact: Name,
        serial: u32,
        minimum: u32,
    },
    Txt(String),
}

impl Data {
    /// Its type.
    pub fn kind(&self) -> u16 {
        match self {
            Data::A(_) => kind::A,
            Data::Aaaa(_) => kind::AAAA,
            Data::Cname(_) => kind::CNAME,
            Data::Ns(_) => kind::NS,
            Data::Ptr(_) => kind::PTR,
            Data::Srv { .. } => kind::SRV,
            Data::Soa { .. } => kind::SOA,
            Data::Txt(_) => kind::TXT,
        }
    }
}

/// A name and what it says; all records have one life time.
pub type Record = (Name, Data);

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub code: Code,
    /// Whether this server is the one to know.
    pub authoritative: bool,
    /// What was asked for.
    pub answers: Vec<Record>,
    /// Who says that there is nothing, and for how long that may be believed.
    pub authority: Vec<Record>,
    /// What will be asked next.
    pub additional: Vec<Record>,
}

impl Answer {
    /// An answer without records.
    pub fn bare(code: Code) -> Self {
        Answer {
            code,
            authoritative: false,
            answers: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
        }
    }
}

impl Query {
    /// Reads a query. What is none gets the bytes to refuse it with, or silence if it does not even look like one.
    pub fn decode(bytes: &[u8]) -> Result<Query, Option<Vec<u8>>> {
        let mut reader = Reader { bytes, position: 0 };
        let header: Vec<u16> = (0..6).map_while(|_| reader.number()).collect();
        let &[id, flags, questions, answers, authorities, additional] = header.as_slice() else {
            return Err(None);
        };
        // A response: answering it could start an endless exchange between two servers.
        if flags & 0x8000 != 0 {
            return Err(None);
        }
        let refuse = |code: Code| {
            let mut refusal = Vec::with_capacity(HEADER);
            for number in [id, 0x8000 | (flags & 0x7900) | code as u16, 0, 0, 0, 0] {
                refusal.extend_from_slice(&number.to_be_bytes());
            }
            Some(refusal)
        };
        if flags & 0x7800 != 0 {
            return Err(refuse(Code::NotImplemented));
        }
        let decoded = (|| {
            let name = reader.name().filter(|_| questions == 1)?;
            let (kind, class) = (reader.number()?, reader.number()?);
            let question = bytes.get(HEADER..reader.position)?.to_vec();
            let rest = u32::from(answers) + u32::from(authorities) + u32::from(additional);
            let mut edns = None;
            for _ in 0..rest {
                reader.skip_name()?;
                let (kind, size) = (reader.number()?, reader.number()?);
                reader.skip(4)?;
                let length = reader.number()?;
                reader.skip(length.into())?;
                if kind == kind::OPT {
                    edns = Some(size);
                }
            }
            let recursion = flags & 0x0100 != 0;
            let query = Query {
                id,
                recursion,
                question,
                edns,
                name,
                kind,
            };
            Some((query, class))
        })();
        match decoded {
            None => Err(refuse(Code::FormatError)),
            Some((_, class)) if class != 1 && class != 255 => Err(refuse(Code::Refused)),
            Some((query, _)) => Ok(query),
        }
    }

    /// The bytes of an answer for a stream, where length does not matter.
    pub fn encode(&self, answer: &Answer, lifetime: u32) -> Vec<u8> {
        self.bounded(answer, lifetime, usize::from(u16::MAX))
    }

    /// The bytes of an answer for a datagram. One that is too long for the client goes without records and says so: the client then
    /// asks over a stream.
    pub fn encode_datagram(&self, answer: &Answer, lifetime: u32) -> Vec<u8> {
        let size = self.edns.map_or(SMALLEST_DATAGRAM, usize::from);
        self.bounded(answer, lifetime, size.clamp(SMALLEST_DATAGRAM, LARGEST_DATAGRAM))
    }

    fn bounded(&self, answer: &Answer, lifetime: u32, limit: usize) -> Vec<u8> {
        let whole = self.write(answer, lifetime, false);
        if whole.len() <= limit {
            return whole;
        }
        let without_extras = Answer {
            additional: Vec::new(),
            ..answer.clone()
        };
        let shorter = self.write(&without_extras, lifetime, false);
        if shorter.len() <= limit {
            return shorter;
        }
        let cut = Answer {
            answers: Vec::new(),
            authority: Vec::new(),
            ..without_extras
        };
        self.write(&cut, lifetime, true)
    }

    fn write(&self, answer: &Answer, lifetime: u32, truncated: bool) -> Vec<u8> {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let flags =
            0x8000 | flag(answer.authoritative, 0x0400) | flag(truncated, 0x0200) | flag(self.recursion, 0x0100) | answer.code as u16;
        let sections = [&answer.answers, &answer.authority, &answer.additional];
        // More records than a section can count do not fit into a message either.
        let count = |records: &[Record]| u16::try_from(records.len()).unwrap_or(u16::MAX);
        let additional = count(sections[2]).saturating_add(u16::from(self.edns.is_some()));
        let mut writer = Writer::default();
        for number in [self.id, flags, 1, count(sections[0]), count(sections[1]), additional] {
            writer.number(number);
        }
        writer.bytes.extend_from_slice(&self.question);
        writer.remember(&self.name, HEADER);
        for (name, data) in sections.into_iter().flatten() {
            writer.record(name, data, lifetime);
        }
        if self.edns.is_some() {
            writer.bytes.push(0);
            writer.number(kind::OPT);
            writer.number(LARGEST_DATAGRAM as u16);
            writer.bytes.extend_from_slice(&[0; 6]);
        }
        writer.bytes
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u16> {
        let pair = self.bytes.get(self.position..self.position + 2)?;
        self.position += 2;
        Some(u16::from_be_bytes([pair[0], pair[1]]))
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.position += count;
        (self.position <= self.bytes.len()).then_some(())
    }

    /// A name without references: nothing comes before the first question that it could refer to.
    fn name(&mut self) -> Option<Name> {
        let (mut labels, mut length) = (Vec::new(), 1);
        loop {
            let count = usize::from(*self.bytes.get(self.position)?);
            self.position += 1;
            if count == 0 {
                return Some(Name(labels));
            }
            let label = self.bytes.get(self.position..self.position + count).filter(|_| count < 64)?;
            self.position += count;
            length += count + 1;
            if length > LONGEST_NAME {
                return None;
            }
            // A byte that no name of ours has is replaced by a character that none has, and one as long.
            let character = |byte: &u8| if byte.is_ascii() { byte.to_ascii_lowercase().into() } else { '?' };
            labels.push(label.iter().map(character).collect());
        }
    }

    fn skip_name(&mut self) -> Option<()> {
        loop {
            let count = *self.bytes.get(self.position)?;
            self.position += 1;
            match count {
                0 => return Some(()),
                1..64 => self.skip(count.into())?,
                192.. => return self.skip(1),
                _ => return None,
            }
        }
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    /// Where a name, or the end of one, was written before.
    places: HashMap<Vec<String>, u16>,
}

impl Writer {
    fn number(&mut self, number: u16) {
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    fn long(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    /// Notes that `name` lies at `offset`.
    fn remember(&mut self, name: &Name, mut offset: usize) {
        for start in 0..name.0.len() {
            if let Some(place) = u16::try_from(offset).ok().filter(|place| *place < 0x4000) {
                self.places.entry(name.0[start..].to_vec()).or_insert(place);
            }
            offset += name.0[start].len() + 1;
        }
    }

    fn name(&mut self, name: &Name, compress: bool) {
        let known = (0..name.0.len()).find(|start| compress && self.places.contains_key(&name.0[*start..]));
        let offset = self.bytes.len();
        for label in &name.0[..known.unwrap_or(name.0.len())] {
            // Kubernetes has no longer labels; a target somebody typed may.
            let label = &label.as_bytes()[..label.len().min(63)];
            self.bytes.push(label.len() as u8);
            self.bytes.extend_from_slice(label);
        }
        match known.and_then(|start| self.places.get(&name.0[start..]).copied()) {
            Some(place) => self.number(0xc000 | place),
            None => self.bytes.push(0),
        }
        self.remember(name, offset);
    }

    fn record(&mut self, name: &Name, data: &Data, lifetime: u32) {
        self.name(name, true);
        self.number(data.kind());
        self.number(1);
        self.long(lifetime);
        let length = self.bytes.len();
        self.number(0);
        match data {
            Data::A(address) => self.bytes.extend_from_slice(&address.octets()),
            Data::Aaaa(address) => self.bytes.extend_from_slice(&address.octets()),
            Data::Cname(name) | Data::Ns(name) | Data::Ptr(name) => self.name(name, true),
            Data::Srv { weight, port, target } => {
                self.number(0);
                self.number(*weight);
                self.number(*port);
                // RFC 2782 wants it in full.
                self.name(target, false);
            }
            Data::Soa {
                server,
                contact,
                serial,
                minimum,
            } => {
                self.name(server, true);
                self.name(contact, true);
                for number in [*serial, 7200, 1800, 86400, *minimum] {
                    self.long(number);
                }
            }
            Data::Txt(text) => {
                let text = &text.as_bytes()[..text.len().min(255)];
                self.bytes.push(text.len() as u8);
                self.bytes.extend_from_slice(text);
            }
        }
        // A record is shorter than 64 KiB: names and texts are.
        let size = (self.bytes.len() - length - 2) as u16;
        self.bytes[length..length + 2].copy_from_slice(&size.to_be_bytes());
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
