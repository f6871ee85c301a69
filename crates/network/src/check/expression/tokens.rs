//! Tokens of OVN's expression language.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::check::expression::{Relation, Value};
use crate::ipam::Mac;

/// What a match is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    And,
    Or,
    Not,
    Open,
    Close,
    OpenSet,
    CloseSet,
    Comma,
    Relation(Relation),
    Name(String),
    Value(Value),
}

/// Cuts a match into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    /// Two characters before one: the first that fits is meant.
    const SYMBOLS: &[(&str, Token)] = &[
        ("&&", Token::And),
        ("||", Token::Or),
        ("==", Token::Relation(Relation::Equal)),
        ("!=", Token::Relation(Relation::NotEqual)),
        ("<=", Token::Relation(Relation::Order)),
        (">=", Token::Relation(Relation::Order)),
        ("<", Token::Relation(Relation::Order)),
        (">", Token::Relation(Relation::Order)),
        ("!", Token::Not),
        ("(", Token::Open),
        (")", Token::Close),
        ("{", Token::OpenSet),
        ("}", Token::CloseSet),
        (",", Token::Comma),
    ];
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let symbol = SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol));
        let (token, length) = if let Some((symbol, token)) = symbol {
            (token.clone(), symbol.len())
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or_else(|| format!("{rest} has no closing quote"))?;
            (Token::Value(Value::Text(rest[1..=end].to_owned())), end + 2)
        } else {
            let marked = usize::from(first == '$' || first == '@');
            let is_word = |c: char| c.is_ascii_alphanumeric() || "_.:/[]".contains(c);
            let length = rest[marked..].find(|c| !is_word(c)).map_or(rest.len(), |end| end + marked);
            (word(&rest[..length])?, length)
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// A name or a constant. No name of a field can be read as an address.
fn word(word: &str) -> Result<Token, String> {
    let number = word
        .strip_prefix("0x")
        .map_or_else(|| word.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    let value = match word.split_at_checked(1) {
        Some(("$", name)) => Value::Set(name.to_owned()),
        Some(("@", name)) => Value::Group(name.to_owned()),
        None => return Err("a character that no expression has".to_owned()),
        _ => match (number, word.parse::<Mac>(), word.parse::<IpNet>(), word.parse::<IpAddr>()) {
            (Some(number), ..) => Value::Number(number),
            (_, Ok(mac), ..) => Value::Mac(mac),
            (_, _, Ok(range), _) => Value::Address(range),
            (.., Ok(address)) => Value::Address(address.into()),
            _ if word.contains([':', '/']) => return Err(format!("{word} is neither a name nor an address")),
            _ => return Ok(Token::Name(word.to_owned())),
        },
    };
    Ok(Token::Value(value))
}
