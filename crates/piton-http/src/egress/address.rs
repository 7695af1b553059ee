//! Which IP addresses are of the public Internet.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(first: u16, second: u16, third: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), prefix)
}

/// Of IANA's registry of special-purpose addresses all that is not on the public Internet, multicast, and one address by which
/// a cloud talks to its machines.
const NOT_PUBLIC_V4: &[Ipv4Net] = &[
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(168, 63, 129, 16, 32),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
];

/// What has been given out for use on the public Internet.
const PUBLIC_V6: Ipv6Net = v6(0x2000, 0, 0, 3);
/// Of that: protocols (Teredo, ORCHID, benchmarks, …), documentation, and 6to4, by which an IPv4 address is reached.
const NOT_PUBLIC_V6: &[Ipv6Net] =
    &[v6(0x2001, 0, 0, 23), v6(0x2001, 0x0db8, 0, 32), v6(0x2002, 0, 0, 16), v6(0x3fff, 0, 0, 20)];
/// NAT64: the last four bytes are an IPv4 address. Where a network has only IPv6, every IPv4 host is reached by it.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);

/// Whether an address is one of the public Internet: not loopback, private, link-local, multicast, unspecified, a cloud's
/// metadata service, reserved, or one of these as part of an IPv6 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match embedded(address) {
        Some(within) => is_public_v4(within),
        None => {
            let is_listed = NOT_PUBLIC_V6.iter().any(|net| net.contains(&address));
            PUBLIC_V6.contains(&address) && !is_listed && !is_isatap(address)
        }
    }
}

/// The IPv4 address that is reached by an IPv6 address: mapped, or by NAT64.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    address.to_ipv4_mapped().or_else(|| NAT64.contains(&address).then_some(Ipv4Addr::new(a, b, c, d)))
}

/// ISATAP has an IPv4 address in the last four bytes, behind this mark, in whatever network.
fn is_isatap(address: Ipv6Addr) -> bool {
    let [.., first, second, _, _] = address.segments();
    matches!((first, second), (0 | 0x0200, 0x5efe))
}

/// Whether an address is one of this machine's own, public or not. Where that cannot be told, every address is.
pub fn is_of_this_machine(address: IpAddr) -> bool {
    let plain = match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
    };
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return true };
    interfaces.filter_map(|interface| interface.address).any(|own| {
        let v4 = own.as_sockaddr_in().map(|own| IpAddr::V4(own.ip()));
        let v6 = own.as_sockaddr_in6().map(|own| IpAddr::V6(own.ip()));
        v4.or(v6) == Some(plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_known_in_every_dress() {
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::8.8.8.8",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "2600:1f18::5efe:7f00:1",
            "2600:1f18::200:5efe:a00:1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_known() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.215.14",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "168.63.129.17",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2600::1",
            "2a00:1450::1",
            "3ffe:ffff::1",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn the_addresses_of_the_machine_itself_are_known() {
        let is_own = |text: &str| is_of_this_machine(text.parse().unwrap());
        assert!(is_own("127.0.0.1") && is_own("::ffff:127.0.0.1") && is_own("64:ff9b::127.0.0.1"));
        assert!(!is_own("192.0.2.77") && !is_own("2600::1"));
    }
}
