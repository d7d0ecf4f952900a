//! Small arbitrary histories, sensible or not, that shrink to what matters.

use super::history::{Amounts, Content, Pod, Scale, Stop};
use bizrq::domain::event::{Event, ResizeBasis, StartBasis, StopBasis};
use proptest::{collection::vec, option, prelude::*, sample::select};

/// One record about one of a few pods, by small numbers.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Created(i64, Content),
    Started(i64, StartBasis, Content),
    Ran(i64),
    Resized(i64, ResizeBasis, Amounts),
    Moved(i64, Content),
    Stopped(Stop),
    Withdrawn(i64),
}

/// Nothing happens at this number or later.
pub(crate) const END: i64 = 320;

/// A history of up to `most` records about three pods, two of which share a uid.
pub(crate) fn history(most: usize) -> impl Strategy<Value = Vec<Event<'static>>> {
    vec((0_usize..3, said()), 0..most).prop_map(|said| events(Scale::MILLIS, &said))
}

/// The records that `said` stands for, without what contradicts a start by one and the same clock (the contract
/// leaves open whether a start that is read later may acquit or convict such a stop; scenarios have it).
pub(crate) fn events(scale: Scale, said: &[(usize, Said)]) -> Vec<Event<'static>> {
    let pods = [("/clusters/east", "p-0"), ("/clusters/west", "p-0"), ("/clusters/east", "p-1")];
    let mut events = Vec::new();
    for (i, record) in said {
        let (source, uid) = pods[*i];
        let pod = Pod::new(scale, source, uid);
        let start = said.iter().filter(|(j, _)| j == i).filter_map(|(_, s)| match s {
            Said::Started(at, ..) => Some(*at),
            _ => None,
        });
        events.push(match record {
            Said::Created(at, content) => pod.created(*at, content),
            Said::Started(at, basis, content) => pod.started(*at, *basis, content),
            Said::Ran(at) => pod.ran(*at),
            Said::Resized(at, basis, amounts) => pod.resized(*at, *basis, *amounts),
            Said::Moved(at, content) => pod.moved(*at, content),
            Said::Stopped(stop) => {
                let early = start.max().is_some_and(|latest| stop.at < latest);
                if early && same_clock_possible(stop.basis) {
                    continue;
                }
                // Whether "uncertain by the difference" comes instead of its bounds is left open as well.
                let certain = Stop { ran: stop.ran, ..Stop::certain(stop.basis, stop.at) };
                pod.stopped(if early { certain } else { *stop })
            }
            Said::Withdrawn(at) => pod.withdrawn(*at),
        });
    }
    events
}

/// Whether a start may be dated by the same clock as a stop by `basis`.
fn same_clock_possible(basis: StopBasis) -> bool {
    // Arbitrary starts are `Bound`, `Created` or `KubeletStart`: API server and node.
    !matches!(basis, StopBasis::Received | StopBasis::Imported)
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        1 => (instant(), content()).prop_map(|(at, c)| Said::Created(at, c)),
        4 => (instant(), start_basis(), content()).prop_map(|(at, b, c)| Said::Started(at, b, c)),
        1 => instant().prop_map(Said::Ran),
        3 => (instant(), resize_basis(), amounts()).prop_map(|(at, b, a)| Said::Resized(at, b, a)),
        3 => (instant(), content()).prop_map(|(at, c)| Said::Moved(at, c)),
        4 => stop().prop_map(Said::Stopped),
        2 => instant().prop_map(Said::Withdrawn),
    ]
}

/// Few instants, so that many records share one.
fn instant() -> impl Strategy<Value = i64> {
    prop_oneof![0..END - 20, select(vec![0, 100, 199, 200, 201])]
}

fn stop() -> impl Strategy<Value = Stop> {
    (instant(), stop_basis(), 0_i64..10, 0_i64..10, option::of((0_i64..150, 0_i64..150))).prop_map(
        |(at, basis, before, after, ran)| Stop {
            basis,
            at,
            earliest: (at - before).max(0),
            latest: at + after,
            ran: ran.map(|(from, length)| (from, from + length)),
        },
    )
}

fn amounts() -> impl Strategy<Value = Amounts> {
    (select(vec![0, 1, 500, 2000]), select(vec![0, 1 << 20]), select(vec![0, 1000]))
        .prop_map(|(cpu, memory, gpu)| Amounts { cpu, memory, gpu })
}

fn content() -> impl Strategy<Value = Content> {
    let cpu = select(vec![None, Some("A4")]);
    let gpu = select(vec![None, Some("A30"), Some("V100|T4")]);
    (select(vec!["", "team-a", "team-b"]), cpu, gpu, amounts()).prop_map(
        |(group, cpu_model, gpu_model, amounts)| Content { group, cpu_model, gpu_model, amounts },
    )
}

fn start_basis() -> impl Strategy<Value = StartBasis> {
    select(vec![StartBasis::Bound, StartBasis::Created, StartBasis::KubeletStart])
}

fn resize_basis() -> impl Strategy<Value = ResizeBasis> {
    select(vec![ResizeBasis::KubeletStatus, ResizeBasis::Received])
}

fn stop_basis() -> impl Strategy<Value = StopBasis> {
    select(vec![
        StopBasis::TerminalStatus,
        StopBasis::Received,
        StopBasis::ContainersFinished,
        StopBasis::Imported,
        StopBasis::Deleted,
        StopBasis::NodeLost,
        StopBasis::Absent,
    ])
}
