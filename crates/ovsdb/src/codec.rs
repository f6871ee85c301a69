//! Cuts a stream of bytes into messages.
//!
//! Nothing separates the messages of OVSDB: one ends where its outermost brace closes. The decoder scans every byte
//! once, however small the pieces, and parses a message when it is complete. No input makes it panic.

use crate::message::{Message, NotAMessage};

/// The deepest nesting of a message; real ones have about eight levels.
const MAX_DEPTH: usize = 100;

/// Bytes in, messages out.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Takes the next bytes and returns the messages they complete. After an error the stream is lost.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, DecodeError> {
        let mut messages = Vec::new();
        let mut start = 0;
        for (index, &byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if self.depth > 0 || byte == b'{' => {
                    if self.depth == 0 {
                        start = index;
                    }
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(DecodeError::Depth);
                    }
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.buffer.extend_from_slice(&bytes[start..=index]);
                        let json = serde_json::from_slice(&self.buffer)?;
                        self.buffer.clear();
                        messages.push(Message::from_json(json)?);
                    }
                }
                b'"' if self.depth > 0 => self.in_string = true,
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ if self.depth > 0 => {}
                _ => return Err(DecodeError::Garbage(byte)),
            }
        }
        if self.depth > 0 {
            self.buffer.extend_from_slice(&bytes[start..]);
        } else {
            // The first message can be many megabytes; those that follow are small.
            self.buffer.shrink_to(64 * 1024);
        }
        Ok(messages)
    }
}

/// Bytes that are no stream of messages.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Something other than an object where a message should start.
    #[error("byte {0:#04x} where a message should start; is the remote an OVSDB server?")]
    Garbage(u8),
    /// A message is nested too deeply.
    #[error("a message is nested more than {MAX_DEPTH} levels deep")]
    Depth,
    /// A message is not JSON.
    #[error("a message is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A message is JSON but not JSON-RPC.
    #[error(transparent)]
    Message(#[from] NotAMessage),
}
