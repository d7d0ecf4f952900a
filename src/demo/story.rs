//! What must happen in the fortnight, turn by turn: everything that a person should see once.

use super::{
    DAY, Error, MINUTE, SECOND, begin, cast,
    cast::{EAST, WEST},
    life::{Place, Plan},
    queue::Happening,
    reviews::{Answer, THINK},
    world::World,
};
use crate::domain::{
    event::{PodResize, Role},
    text::Text,
    time::{HOUR_MS, Timestamp},
};

/// A turn: day (from 0), hour, minute, pods that it makes, what happens.
struct Turn(i64, i64, i64, u64, fn(&mut World, Timestamp) -> Result<(), Error>);

const TURNS: [Turn; 16] = [
    Turn(0, 6, 0, 19, services),
    Turn(0, 9, 10, 8, train_without_a_model),
    Turn(0, 10, 0, 16, pretrain),
    Turn(1, 9, 30, 1, notebook),
    Turn(2, 11, 0, 8, roll_out),
    Turn(3, 12, 0, 4, detect),
    Turn(3, 14, 0, 4, scale_up),
    Turn(4, 15, 20, 18, too_many),
    Turn(5, 2, 13, 3, lose_a_node),
    Turn(6, 10, 5, 0, resize_in_place),
    Turn(7, 12, 0, 0, move_a_team),
    Turn(8, 9, 40, 0, misspell),
    Turn(8, 10, 15, 8, train_again),
    Turn(8, 13, 30, 0, hand_over),
    Turn(9, 7, 30, 0, scale_down),
    Turn(12, 17, 0, 0, close_the_notebook),
];

/// Evaluations: every evening, four pods, as long as there is a budget for them.
const EVALUATION: (i64, u64) = (20 * HOUR_MS, 4);
/// The first evening without a budget: sixteen cards use up 3000 card-hours in less than eight days.
const BROKE: i64 = 8;
/// The last turn, to be counted as long as its pods may still be on their way.
const UNDER_WAY: i64 = 30 * MINUTE;

/// Pods that the story will still make after `now`.
pub(super) fn pods_after(now: Timestamp) -> u64 {
    let to_come = |at: i64| begin().shifted(at).shifted(UNDER_WAY) > now;
    let turns = TURNS.iter().filter(|turn| to_come(turn.at())).map(|turn| turn.3);
    let evenings = (0..BROKE).filter(|day| to_come(day * DAY + EVALUATION.0));
    turns.chain(evenings.map(|_| EVALUATION.1)).fold(0, u64::saturating_add)
}

impl Turn {
    /// Milliseconds after the beginning.
    const fn at(&self) -> i64 {
        self.0 * DAY + self.1 * HOUR_MS + self.2 * MINUTE
    }
}

/// Plans everything that does not follow from something else.
pub(super) fn schedule(world: &mut World) {
    let at = |after: i64| begin().shifted(after);
    world.queue.turn(at(0), |world, now| world.bind(now, EAST));
    world.queue.turn(at(SECOND), |world, now| world.bind(now, WEST));
    for (group, after) in (0..world.groups.len()).zip(1..) {
        world.queue.at(at(MINUTE + after * 5 * SECOND), Happening::Propose(group));
    }
    for turn in &TURNS {
        // People are not on time to the second.
        let late = world.random.between(0, 55) * SECOND;
        world.queue.turn(at(turn.at() + late), turn.4);
    }
    for day in 0..14 {
        let late = world.random.between(0, 55) * SECOND;
        world.queue.turn(at(day * DAY + EVALUATION.0 + late), evaluate);
    }
}

const JOB: (&str, &str) = ("batch/v1", "Job");
const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const STATEFUL_SET: (&str, &str) = ("apps/v1", "StatefulSet");

/// Pods of one role: how many, CPU in thousandths, memory in GiB, cards and their model.
fn role(
    count: u64,
    cpu: u64,
    memory: u64,
    cards: u64,
    model: Option<&'static str>,
) -> Role<'static> {
    let (models, pod) = (cast::on(model), cast::shape(cpu, memory, cards));
    Role { name: Text::EMPTY, count, peak: count, models, pod }
}

impl World {
    /// A workload of the story, known by its name.
    fn enter(
        &mut self,
        cluster: usize,
        kind: (&'static str, &'static str),
        (group, name): (&'static str, &'static str),
        role: Role<'static>,
        seconds: Option<(i64, i64)>,
        place: Place,
    ) -> u64 {
        let plan = Plan { seconds, place };
        let names = (group.to_owned(), name.to_owned());
        let work = self.workload(cluster, kind, names, role, plan);
        self.known.insert(name, work);
        work
    }

    fn known(&self, now: Timestamp, name: &str) -> Result<u64, Error> {
        let plot = || Error::Plot { time: now, what: format!("{name} is missing") };
        self.known.get(name).copied().ok_or_else(plot)
    }

    /// Fails unless `answer` is what the story needs.
    fn expect(&self, now: Timestamp, answer: &Answer, reason: Option<&str>) -> Result<(), Error> {
        let (is, wanted) = match answer {
            Answer::Refused(told) => (Some(&*told.reason), reason),
            _ => (None, reason),
        };
        if is == wanted {
            return Ok(());
        }
        let what = format!("a review was answered with {is:?}, not {wanted:?}");
        Err(Error::Plot { time: now, what })
    }

    fn admit(&mut self, now: Timestamp, work: u64) -> Result<(), Error> {
        let answer = self.submit(now, work)?;
        self.expect(now, &answer, None)
    }
}

fn services(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let surge = |role: Role<'static>, peak| Role { peak, ..role };
    let cpu = |nodes| Place::Nodes(nodes, 1);
    let east = || cpu(&["east-cpu-1", "east-cpu-2"]);
    let west = || cpu(&["west-cpu-1", "west-cpu-2"]);
    let all = [
        (EAST, DEPLOYMENT, ("shop", "storefront"), surge(role(8, 1000, 2, 0, None), 10), east()),
        (WEST, DEPLOYMENT, ("search", "search-api"), surge(role(6, 1000, 2, 0, None), 7), west()),
        (WEST, DEPLOYMENT, ("tools", "gateway"), surge(role(3, 1000, 2, 0, None), 4), west()),
        (EAST, STATEFUL_SET, ("ci", "artifact-store"), role(2, 2000, 8, 0, None), east()),
    ];
    for (cluster, kind, name, role, place) in all {
        let work = world.enter(cluster, kind, name, role, None, place);
        world.admit(now, work)?;
    }
    world.scene(now, "the services go live: storefront, search-api, gateway, artifact-store");
    Ok(())
}

/// The group wants to know the model of every card; at the second try it is told.
fn train_without_a_model(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = segmenter(world, "segmenter", None);
    let answer = world.submit(now, work)?;
    world.expect(now, &answer, Some("ModelRequired"))?;
    world.scene(now, "vision submits a training job without saying on which cards: refused");
    let again = |world: &mut World, now| {
        let work = segmenter(world, "segmenter", Some("A100"));
        world.admit(now, work)?;
        world.scene(now, "vision asks for 8 A100 and is admitted");
        Ok(())
    };
    world.queue.turn(now.shifted(THINK), again);
    Ok(())
}

fn segmenter(world: &mut World, name: &'static str, model: Option<&'static str>) -> u64 {
    let hours = |n: i64| n * 3600;
    // The second one still runs when the fortnight is over.
    let seconds =
        if name == "segmenter" { (hours(120), hours(132)) } else { (hours(300), hours(320)) };
    let place = Place::Nodes(&["east-a100-3"], 8);
    world.enter(EAST, JOB, ("vision", name), role(8, 12_000, 64, 1, model), Some(seconds), place)
}

fn pretrain(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let days = |n: i64| n * 86_400;
    let place = Place::Nodes(&["east-a100-1", "east-a100-2"], 8);
    let role = role(16, 12_000, 48, 1, Some("A100"));
    let seconds = Some((days(10), days(10) + 43_200));
    let work = world.enter(EAST, JOB, ("language", "pretrain"), role, seconds, place);
    world.admit(now, work)?;
    world.scene(now, "language begins to pretrain on 16 A100; its budget is 3,000 card-hours");
    Ok(())
}

fn evaluate(world: &mut World, now: Timestamp) -> Result<(), Error> {
    const NAMES: [&str; 14] = [
        "eval-02", "eval-03", "eval-04", "eval-05", "eval-06", "eval-07", "eval-08", "eval-09",
        "eval-10", "eval-11", "eval-12", "eval-13", "eval-14", "eval-15",
    ];
    let day = now.since(begin()) / DAY;
    let name = usize::try_from(day).ok().and_then(|day| NAMES.get(day)).copied();
    let place = Place::Nodes(&["east-a100-4"], 4);
    let (role, seconds) = (role(EVALUATION.1, 8000, 32, 1, Some("A100")), Some((4800, 9600)));
    let name = ("language", name.unwrap_or("eval"));
    let work = world.enter(EAST, JOB, name, role, seconds, place);
    let answer = world.submit(now, work)?;
    let broke = day >= BROKE;
    world.expect(now, &answer, broke.then_some("CashExhausted"))?;
    if day == BROKE {
        world.scene(
            now,
            "language's budget is used up: its evaluation is refused, and pretrain runs on",
        );
    }
    Ok(())
}

fn notebook(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let place = Place::Nodes(&["west-a30-2"], 8);
    let role = role(1, 4000, 16, 1, Some("A30"));
    let work = world.enter(WEST, STATEFUL_SET, ("vision", "notebook"), role, None, place);
    world.admit(now, work)
}

/// A new image: nothing grows, so the review needs no record; each new pod comes before an old one goes.
fn roll_out(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "storefront")?;
    let answer = world.update(now, work, |_| {})?;
    world.expect(now, &answer, None)?;
    let old = world.pods_of(work);
    for (pod, step) in old.into_iter().zip(1..) {
        let after = now.shifted(step * 25 * SECOND);
        world.queue.turn(after, surge);
        world.queue.at(after.shifted(18 * SECOND), Happening::Stop(pod));
    }
    world.scene(now, "shop rolls out a new storefront, pod by pod");
    Ok(())
}

/// One pod more than the Deployment has, before an old one goes.
fn surge(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "storefront")?;
    let ordinal = world.random.below(2);
    world.make(now, work, ordinal);
    Ok(())
}

fn detect(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let place = Place::Nodes(&["west-a30-1"], 8);
    let (role, hours) = (role(4, 8000, 32, 1, Some("A30")), |n: i64| n * 3600);
    let seconds = Some((hours(84), hours(96)));
    let work = world.enter(WEST, JOB, ("vision", "detector"), role, seconds, place);
    world.admit(now, work)
}

fn scale_up(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "storefront")?;
    let answer = world.update(now, work, |ask| (ask.role.count, ask.role.peak) = (12, 14))?;
    world.expect(now, &answer, None)?;
    world.scene(now, "shop scales storefront from 8 to 12");
    Ok(())
}

/// Far too many; the refusal says how many would fit, and so many are asked for next.
fn too_many(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "search-api")?;
    let ask = |count: u64| {
        move |ask: &mut super::reviews::Ask| {
            (ask.role.count, ask.role.peak) = (count, count.saturating_add(1));
        }
    };
    let answer = world.update(now, work, ask(40))?;
    world.expect(now, &answer, Some("QuotaExceeded"))?;
    let fit = match &answer {
        Answer::Refused(told) => told.fit(),
        _ => 0,
    };
    world.scene(now, format!("search wants 40 replicas of search-api: refused, {fit} would fit"));
    world.queue.turn(now.shifted(THINK), move |world, now| {
        let answer = world.update(now, work, ask(fit))?;
        world.expect(now, &answer, None)?;
        world.scene(now, format!("search asks for {fit} and is admitted"));
        Ok(())
    });
    Ok(())
}

/// The kubelet falls silent: its pods are taken for stopped. Three are removed by hand and made again elsewhere, on
/// the fourth nobody lays a hand; when the node comes back, it turns out to have run all the time.
fn lose_a_node(world: &mut World, now: Timestamp) -> Result<(), Error> {
    const NODE: &str = "west-a30-1";
    world.node(now, NODE, "Unknown")?;
    let work = world.known(now, "detector")?;
    let pods = world.pods_of(work);
    for pod in &pods {
        world.lose(now, *pod)?;
    }
    world.scene(now, format!("{NODE} falls silent: {} pods are taken for stopped", pods.len()));
    if let Some(detector) = world.works.get_mut(&work) {
        detector.plan.place = Place::Nodes(&["west-a30-2"], 8);
        detector.alive = detector.alive.saturating_sub(3);
    }
    for pod in pods.iter().skip(1) {
        world.pods.remove(pod);
    }
    world.queue.turn(now.shifted(6 * MINUTE), |world, now| {
        let work = world.known(now, "detector")?;
        world.fill(now, work);
        world.scene(now, "three of them are removed by hand and made again on west-a30-2");
        Ok(())
    });
    world.queue.turn(now.shifted(52 * MINUTE), |world, now| {
        world.node(now, NODE, "True")?;
        let work = world.known(now, "detector")?;
        if let Some(pod) = world.pods_of(work).first() {
            world.withdraw(now, *pod)?;
        }
        world.scene(
            now,
            format!("{NODE} is back, and one pod was alive all the time: its stop is withdrawn"),
        );
        Ok(())
    });
    Ok(())
}

fn resize_in_place(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "notebook")?;
    let (from, to) = (cast::shape(4000, 16, 1), cast::shape(8000, 16, 1));
    let pod = world.pods_of(work).first().copied().unwrap_or_default();
    let uid = world.pods.get(&pod).map(|pod| pod.uid.clone()).unwrap_or_default();
    let resize = PodResize { uid: uid.into(), models: cast::on(Some("A30")), from, to };
    let answer = world.review_resize(now, work, resize)?;
    world.expect(now, &answer, None)?;
    world.queue.turn(now.shifted(3 * SECOND), |world, now| {
        let work = world.known(now, "notebook")?;
        let to = cast::shape(8000, 16, 1);
        world.pods_of(work).first().map_or(Ok(()), |pod| world.resize(now, *pod, &to))
    });
    world.scene(now, "vision's notebook grows from 4 to 8 cores while it runs");
    Ok(())
}

fn move_a_team(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let at = world.groups.iter().position(|group| group.name == "tools");
    let at = at.ok_or_else(|| Error::Plot { time: now, what: "tools is missing".to_owned() })?;
    if let Some(tools) = world.groups.get_mut(at) {
        tools.spec.parent = "products".into();
    }
    world.scene(now, "the team tools moves from platform to products, with everything it runs");
    world.propose(now, at)
}

fn misspell(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let place = Place::Nodes(&["west-cpu-1"], 8);
    let role = role(2, 500, 1, 0, None);
    let work = world.enter(WEST, DEPLOYMENT, ("search", "suggest"), role, None, place);
    if let Some(suggest) = world.works.get_mut(&work) {
        suggest.group = "serach".to_owned();
    }
    let answer = world.submit(now, work)?;
    world.expect(now, &answer, Some("UnknownGroup"))
}

fn train_again(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = segmenter(world, "segmenter-2", Some("A100"));
    world.admit(now, work)?;
    world.scene(now, "vision trains again on 8 A100, beyond the end of the fortnight");
    Ok(())
}

/// A workload changes its group, and its pods with it.
fn hand_over(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "artifact-store")?;
    let answer = world.update(now, work, |ask| ask.group = "data".to_owned())?;
    world.expect(now, &answer, None)?;
    world.queue.turn(now.shifted(3 * SECOND), |world, now| {
        let work = world.known(now, "artifact-store")?;
        world.pods_of(work).into_iter().try_for_each(|pod| world.follow(now, pod))
    });
    world.scene(now, "artifact-store is handed over from ci to data");
    Ok(())
}

fn scale_down(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "storefront")?;
    let answer = world.update(now, work, |ask| (ask.role.count, ask.role.peak) = (9, 11))?;
    world.expect(now, &answer, None)?;
    for (pod, step) in world.pods_of(work).into_iter().rev().take(3).zip(2..) {
        world.queue.at(now.shifted(step * 2 * SECOND), Happening::Stop(pod));
    }
    world.scene(now, "shop scales storefront down to 9: what shrinks always passes");
    Ok(())
}

fn close_the_notebook(world: &mut World, now: Timestamp) -> Result<(), Error> {
    let work = world.known(now, "notebook")?;
    for pod in world.pods_of(work) {
        world.queue.at(now.shifted(4 * SECOND), Happening::Stop(pod));
    }
    world.queue.at(now.shifted(6 * SECOND), Happening::Gone(work));
    Ok(())
}
