//! Stages end in their order, each after its tasks; what ends early ends all.

use super::{Error, Stage, Tasks};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Tasks that write their names down when they end, one a stage, and what they wrote.
fn tasks() -> (Tasks, Arc<Mutex<Vec<String>>>) {
    let (mut tasks, said) = (Tasks::new(Duration::from_secs(60)), Arc::<Mutex<Vec<_>>>::default());
    // Spawned in the wrong order, on purpose.
    for stage in Stage::ORDER.into_iter().rev() {
        let (staged, said) = (tasks.staged(), Arc::clone(&said));
        tasks.spawn(stage, format!("{stage:?}"), async move {
            staged.until(stage).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            said.lock().unwrap().push(format!("{stage:?}"));
            Ok(())
        });
    }
    (tasks, said)
}

const ORDER: [&str; 6] = ["Accept", "Watch", "Decide", "Fold", "Lead", "Tell"];

#[tokio::test(start_paused = true)]
async fn stages_end_one_after_another() {
    let (tasks, said) = tasks();
    let staged = tasks.staged();
    assert!(!staged.is_ending());
    tasks.run(async {}).await.unwrap();
    assert_eq!(*said.lock().unwrap(), ORDER);
    assert!(staged.is_ending());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_early_ends_the_process_in_the_same_order() {
    type Early = fn() -> Result<(), String>;
    let cases: [(Early, &str); 3] = [
        (|| Err("the disk is full".into()), "early: the disk is full"),
        (|| Ok(()), "early ended early"),
        (|| panic!("never mind"), "early: task"),
    ];
    for (early, expected) in cases {
        let (mut tasks, said) = tasks();
        tasks.spawn(Stage::Decide, "early", async move { early() });
        let error: Error = tasks.run(std::future::pending::<()>()).await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(*said.lock().unwrap(), ORDER);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_is_stuck_is_left_behind() {
    let (mut tasks, said) = tasks();
    tasks.spawn(Stage::Watch, "stuck", std::future::pending());
    tasks.run(async {}).await.unwrap();
    let said = said.lock().unwrap();
    assert_eq!(*said, ORDER);
}

#[tokio::test(start_paused = true)]
async fn what_fails_while_it_ends_is_told() {
    let (mut tasks, _) = tasks();
    let staged = tasks.staged();
    tasks.spawn(Stage::Fold, "rows", async move {
        staged.until(Stage::Fold).await;
        Err("not written".into())
    });
    let error = tasks.run(async {}).await.unwrap_err();
    assert_eq!(error.to_string(), "rows: not written");
}
