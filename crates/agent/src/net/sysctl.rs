//! Kernel settings, of single devices mostly. Written only where they differ, so that a read-only `/proc/sys` is fine on a
//! node that is set up already. The host's global settings are written by `set_up` alone, which has to be asked for.

use std::path::PathBuf;

use super::NetError;

/// Reads a setting under `net/`, as `ipv4/conf/eth0/forwarding`; none if this kernel does not have it.
pub fn read(name: &str) -> Result<Option<String>, NetError> {
    match std::fs::read_to_string(path(name)) {
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(NetError::io(format!("read net/{name}"))(error)),
    }
}

/// Sets a setting, if the kernel has it and it says something else.
pub fn set(name: &str, value: &str) -> Result<(), NetError> {
    match read(name)? {
        Some(current) if current != value => std::fs::write(path(name), value).map_err(NetError::io(format!("set net/{name} to {value}"))),
        _ => Ok(()),
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}
