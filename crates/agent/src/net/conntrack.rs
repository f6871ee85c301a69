//! Forgets connections that the kernel tracks, where nothing else would make it look at the rules again.

use tokio::process::Command;

use super::NetError;

/// Forgets the UDP connections to this port, whatever their addresses; they are looked up anew with their next packet.
pub async fn forget_udp(port: u16) -> Result<(), NetError> {
    for family in ["ipv4", "ipv6"] {
        let operation = format!("forget the {family} connections to UDP port {port}");
        let output = Command::new("conntrack")
            .args(["-D", "-f", family, "-p", "udp", "--orig-port-dst", &port.to_string()])
            .env("LC_ALL", "C")
            .kill_on_drop(true)
            .output()
            .await
            .map_err(NetError::io(format!("{operation} (is conntrack installed?)")))?;
        let said = String::from_utf8_lossy(&output.stderr);
        // Having had nothing to forget is a failure to it, and a success to us.
        if !output.status.success() && !said.contains("0 flow entries have been deleted") {
            let cause = std::io::Error::other(said.trim().to_owned());
            return Err(NetError::io(operation)(cause));
        }
    }
    Ok(())
}
