//! The crowd: jobs of many teams, more by day than by night, until so many pods were made as were asked for.

use super::{
    DAY, Error, MINUTE, begin, cast,
    life::{Place, Plan},
    queue::Happening,
    reviews::Ask,
    story,
    world::World,
};
use crate::domain::{event::Role, text::Text, time::HOUR_MS, time::Timestamp};

/// How the crowd is spread over the fortnight.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    /// Pods in all, the story's among them.
    pods: u64,
    /// So often something is submitted.
    waves: u64,
    /// A job has so many pods at most.
    most: u64,
    /// Weight of the waves that are still to come.
    weight: u64,
}

/// The first wave: the quotas stand, and so does the story's beginning.
const FIRST: i64 = 7 * HOUR_MS;
/// The last one comes half an hour before the end.
const LAST: i64 = 14 * DAY - 30 * MINUTE;

impl Crowd {
    pub(super) fn new(pods: u64) -> Self {
        // Each wave is a decision that waits for the disk: a hundred and some are told in a second or two. Never so
        // few that the admissions of one outgrow a record (10,000 pods in 600 jobs are a quarter of a megabyte).
        let waves = (pods / 25).clamp(28, 140).max(pods / 500).min(2000).max(pods / 10_000);
        let most = if pods < 100_000 { 7 } else { 31 };
        let mut crowd = Self { pods, waves, most, weight: 0 };
        crowd.weight = (0..waves).map(|n| crowd.weight_of(n)).fold(0, u64::saturating_add);
        crowd
    }

    pub(super) fn needs(&self) -> cast::Crowd {
        cast::Crowd::new(self.pods, self.most)
    }

    fn time(&self, number: u64) -> Timestamp {
        let (span, waves) = (i128::from(LAST - FIRST), i128::from(self.waves.max(1)));
        let after = span.saturating_mul(i128::from(number)) / waves;
        begin().shifted(FIRST).shifted(i64::try_from(after).unwrap_or(LAST))
    }

    /// People work by day, and less at the weekend.
    fn weight_of(&self, number: u64) -> u64 {
        let since = self.time(number).since(begin());
        let (day, hour) = (since / DAY, since % DAY / HOUR_MS);
        let by_day = match hour {
            8..=17 => 5,
            6 | 7 | 18..=21 => 3,
            _ => 2,
        };
        if day % 7 >= 5 { by_day } else { by_day * 2 }
    }
}

/// Plans the first wave; each plans the next.
pub(super) fn schedule(world: &mut World) {
    world.queue.at(world.crowd.time(0), Happening::Wave(0));
}

impl World {
    /// Submits the wave's share of the pods that are still to come, cluster by cluster.
    pub(super) fn wave(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        let next = number.saturating_add(1);
        if next < self.crowd.waves {
            self.queue.at(self.crowd.time(next), Happening::Wave(next));
        }
        let to_come = story::pods_after(now);
        let left = self.options.pods.saturating_sub(self.made).saturating_sub(to_come);
        let weight = self.crowd.weight_of(number);
        let share = u128::from(left).saturating_mul(u128::from(weight))
            / u128::from(self.crowd.weight.max(1));
        self.crowd.weight = self.crowd.weight.saturating_sub(weight);
        let mut share = u64::try_from(share).unwrap_or(left);
        let mut asks = [Vec::new(), Vec::new()];
        while share > 0 {
            let most = self.crowd.most.min(share);
            let count = self.random.below(most).saturating_add(1);
            share = share.saturating_sub(count);
            let (work, cluster) = self.job(count);
            if let (Some(known), Some(asks)) = (self.works.get(&work), asks.get_mut(cluster)) {
                asks.push(Ask { work, ..Ask::create(known) });
            }
        }
        for asks in asks {
            let answers = self.review(now, &asks)?;
            for (ask, answer) in asks.iter().zip(answers) {
                if answer.is_yes() {
                    self.seen(now, ask.work);
                } else {
                    // Somebody else's pods come in their place.
                    self.works.remove(&ask.work);
                }
            }
        }
        Ok(())
    }

    /// A job of some team of the crowd.
    fn job(&mut self, count: u64) -> (u64, usize) {
        let random = &mut self.random;
        let groups = self.crowd.needs().groups;
        let (kind, shapes): (&str, &[(u64, u64, u64)]) = match random.below(3) {
            0 => ("sweeps", &[(4000, 16, 1), (2000, 8, 1), (2000, 8, 0), (4000, 12, 0)]),
            1 => ("ci", &[(500, 1, 0), (1000, 2, 0), (2000, 4, 0)]),
            _ => ("data", &[(1000, 8, 0), (2000, 16, 0), (4000, 12, 0)]),
        };
        let group = cast::crowd_group(kind, random.below(groups));
        let at = usize::try_from(random.below(shapes.len() as u64)).unwrap_or_default();
        let (cpu, memory, cards) = shapes.get(at).copied().unwrap_or((1000, 2, 0));
        let cluster = match cards {
            0 if random.below(2) == 0 => cast::EAST,
            _ => cast::WEST,
        };
        // Most take minutes, some take hours: an hour and a half on average.
        let minutes = match random.below(4) {
            0 => random.between(60, 540),
            _ => random.between(3, 60),
        };
        let seconds = minutes.saturating_mul(60);
        let name = format!("{kind}-{}", random.suffix());
        let role = Role {
            name: Text::EMPTY,
            count,
            peak: count,
            models: cast::on((cards > 0).then_some("A30")),
            pod: cast::shape(cpu, memory, cards),
        };
        let plan = Plan { seconds: Some((seconds, seconds + seconds / 8)), place: Place::Crowd };
        (self.workload(cluster, ("batch/v1", "Job"), (group, name), role, plan), cluster)
    }
}
