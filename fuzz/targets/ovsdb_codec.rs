//! Bytes a database server, or whatever listens on its port, sends us. They never panic the decoder, and how the network cuts them
//! into pieces changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_ovsdb::codec::Decoder;
use netloom_ovsdb::message::Message;

fuzz_target!(|data: &[u8]| {
    // The first byte chooses the length of the pieces.
    let Some((&length, stream)) = data.split_first() else { return };
    let whole = Decoder::new().feed(stream);
    let pieces = feed_in_pieces(stream, usize::from(length).max(1));

    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => {
            assert_eq!(whole, pieces, "pieces of {length} bytes give other messages");
            for message in &whole {
                let again = Message::from_json(message.to_json()).map_err(drop);
                assert_eq!(again.as_ref(), Ok(message), "a message does not survive writing and reading");
            }
        }
        (Err(_), Err(_)) => {}
        (whole, pieces) => panic!("whole: {whole:?}, in pieces of {length}: {pieces:?}"),
    }
});

fn feed_in_pieces(stream: &[u8], length: usize) -> Result<Vec<Message>, netloom_ovsdb::codec::DecodeError> {
    let mut decoder = Decoder::new();
    let mut messages = Vec::new();
    for piece in stream.chunks(length) {
        messages.extend(decoder.feed(piece)?);
    }
    Ok(messages)
}
