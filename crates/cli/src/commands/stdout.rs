//! What commands print for people and scripts. A reader that has seen enough, such as `head`, closes the pipe; that is no error.

use std::io::{ErrorKind, Write as _};

/// Prints a text as it is.
pub fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: cannot print: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Prints a line.
pub fn print_line(line: &str) {
    print(&format!("{line}\n"));
}
