//! What people say on the command line and machines do not: `30d`, `2026-11-01`, `200MB`.

use crate::failure::{Context, Result, bail, ensure};
use jiff::civil::DateTime;
use jiff::{Span, Zoned};

/// A point in time: a date (its midnight), a date with a time, or so long before now (`7d`, `12h`). In milliseconds.
pub(super) fn since(said: &str, now: &Zoned) -> Result<u64> {
    let by_date = said.parse::<DateTime>().ok().and_then(|date| date.to_zoned(now.time_zone().clone()).ok());
    match by_date {
        Some(date) => Ok(milliseconds(&date)),
        None => {
            before(said, now).with_context(|| format!("`{said}` is not a date: write 2026-11-01, or 7d for a week ago"))
        }
    }
}

/// So long before now, in milliseconds.
pub(super) fn before(said: &str, now: &Zoned) -> Result<u64> {
    let span: Span = said.parse().with_context(|| format!("`{said}` is not a time span: write 30d, 2w or 12h"))?;
    ensure!(!span.is_negative(), "`{said}` is not a time span: write 30d, 2w or 12h");
    Ok(milliseconds(&now.checked_sub(span).with_context(|| format!("{said} is longer ago than time goes"))?))
}

fn milliseconds(time: &Zoned) -> u64 {
    u64::try_from(time.timestamp().as_millisecond()).unwrap_or_default()
}

/// A size in bytes: `500`, `20K`, `200MB`, `1.5G`. Steps of a thousand; `KiB` and so on are steps of 1024.
pub(super) fn bytes(said: &str) -> Result<u64> {
    let said = said.trim();
    let digits = said.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(said.len());
    let (number, unit) = said.split_at(digits);
    let factor: f64 = match unit.trim().to_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => bail!("`{said}` is no size: write 500K, 200MB or 1.5G"),
    };
    let number: f64 = number.parse().ok().with_context(|| format!("`{said}` is no size: write 500K, 200MB or 1.5G"))?;
    Ok((number * factor) as u64)
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A point in time as people here write it.
pub(crate) fn when(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at_ms| jiff::Timestamp::from_millisecond(at_ms).ok());
    let zoned = at.map(|at| at.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn a_date_a_time_and_a_span_are_points_in_time() {
        let zoned = |text: &str| text.parse::<DateTime>().expect("a date").to_zoned(TimeZone::UTC).expect("a time");
        let (now, at) = (zoned("2026-11-21T12:00"), |text: &str| milliseconds(&zoned(text)));
        assert_eq!(since("2026-11-01", &now).expect("a date"), at("2026-11-01T00:00"));
        assert_eq!(since("2026-11-01T10:30", &now).expect("a time"), at("2026-11-01T10:30"));
        assert_eq!(since("7d", &now).expect("a span"), at("2026-11-14T12:00"));
        assert_eq!(before("12h", &now).expect("a span"), at("2026-11-21T00:00"));
        for nonsense in ["yesterday-ish", "-3d", "", "2026-13-01"] {
            assert!(since(nonsense, &now).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (said, meant) in
            [("500", 500), ("20K", 20_000), ("200MB", 200_000_000), ("1.5 G", 1_500_000_000), ("1KiB", 1024)]
        {
            assert_eq!(bytes(said).expect("a size"), meant, "{said}");
        }
        for nonsense in ["", "big", "-1", "1.2.3", "5 elephants"] {
            assert!(bytes(nonsense).is_err(), "{nonsense}");
        }
        assert_eq!(size(1_500_000), "1.5 MB");
    }
}
