//! The nodes of a world: they run no processes, each Pod has a fate.

use crate::entropy;
use crate::faults::{Faults, Fired};
use crate::oracle::Oracle;
use crate::rng::Rng;
use flyte_embedded::api_server::ApiServer;
use flyte_objects::Objects;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often nodes look at their Pods.
const TICK: Duration = Duration::from_millis(500);

/// What becomes of a Pod.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    Fails,
    /// It fails and leaves an error document.
    Errors,
    Evicted,
    /// It is gone without a trace, with its outputs or without.
    Vanishes {
        outputs: bool,
    },
    /// Its image is late by so many ticks.
    SlowImage(u64),
    /// It goes from Pending to its end in one step.
    Jumps,
}

struct Known {
    fate: Fate,
    /// Ticks until it runs, and from then to its end.
    start: u64,
    run: u64,
    age: u64,
    /// Ticks that its deletion takes.
    end: u64,
    done: bool,
}

/// The nodes.
pub struct Kubelet {
    server: ApiServer,
    objects: Objects,
    rng: Rng,
    faults: Faults,
    fired: Fired,
    oracle: Arc<Oracle>,
    known: BTreeMap<String, Known>,
    pods: Api<Pod>,
}

impl Kubelet {
    /// Nodes of a cluster.
    pub fn new(
        server: ApiServer,
        objects: Objects,
        rng: Rng,
        faults: Faults,
        fired: Fired,
        oracle: Arc<Oracle>,
    ) -> Self {
        let pods = Api::namespaced(server.client("flyte"), "flyte");
        Self { server, objects, rng, faults, fired, oracle, known: BTreeMap::new(), pods }
    }

    /// Works for ever.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(TICK).await;
            let pods = self.server.snapshot("", "pods");
            self.oracle.pods(&pods);
            for pod in pods {
                self.tick(&pod).await;
            }
        }
    }

    fn fate(&mut self) -> Known {
        let rng = &mut self.rng;
        let trouble = rng.chance(self.faults.pod_trouble);
        let fate = if trouble {
            match rng.below(5) {
                0 => {
                    self.fired.note("F32 evicted");
                    Fate::Evicted
                }
                1 => {
                    self.fired.note("F34 vanished");
                    Fate::Vanishes { outputs: rng.chance(500) }
                }
                2 => {
                    self.fired.note("F32 image late");
                    Fate::SlowImage(rng.between(1, 600))
                }
                3 => {
                    self.fired.note("F33 status jumps");
                    Fate::Jumps
                }
                _ => Fate::Fails,
            }
        } else {
            match rng.below(10) {
                0 => Fate::Fails,
                1 => Fate::Errors,
                _ => Fate::Succeeds,
            }
        };
        Known {
            fate,
            start: rng.between(1, 10),
            run: rng.between(1, 240),
            age: 0,
            end: rng.between(0, 20),
            done: false,
        }
    }

    async fn tick(&mut self, pod: &Value) {
        let (Some(name), Some(uid)) = (pod["metadata"]["name"].as_str(), pod["metadata"]["uid"].as_str())
        else {
            return;
        };
        if !self.known.contains_key(uid) {
            let fate = self.fate();
            self.known.insert(uid.to_string(), fate);
        }
        let Some(known) = self.known.get_mut(uid) else { return };
        known.age += 1;
        if pod["metadata"]["deletionTimestamp"].is_string() {
            if known.end == 0 {
                let _ = self.pods.delete(name, &DeleteParams::default().grace_period(0)).await;
            } else {
                known.end -= 1;
            }
            return;
        }
        if known.done {
            return;
        }
        let late = if let Fate::SlowImage(ticks) = known.fate { ticks } else { 0 };
        let (starts, ends) = (known.start + late, known.start + late + known.run);
        let prefix = outputs_of(pod);
        let (phase, state) = match known.age {
            age if age < known.start => return,
            age if age < starts => {
                let reason = if age % 7 < 3 { "ErrImagePull" } else { "ImagePullBackOff" };
                ("Pending", json!({"waiting": {"reason": reason, "message": "the registry is slow"}}))
            }
            age if age < ends => {
                if age > starts || matches!(known.fate, Fate::Jumps) {
                    return;
                }
                ("Running", json!({"running": {"startedAt": now()}}))
            }
            _ => {
                known.done = true;
                match known.fate {
                    Fate::Succeeds | Fate::Jumps | Fate::SlowImage(_) => {
                        let _ = self.objects.put(&format!("{prefix}/outputs.pb"), bytes::Bytes::new()).await;
                        ("Succeeded", ended(0))
                    }
                    Fate::Fails => ("Failed", ended(1)),
                    Fate::Errors => {
                        let document = bytes::Bytes::from_static(b"\x0a\x0d\x0a\x05Oops!\x12\x04boom");
                        let _ = self.objects.put(&format!("{prefix}/error.pb"), document).await;
                        ("Succeeded", ended(0))
                    }
                    Fate::Evicted => ("Failed", Value::Null),
                    Fate::Vanishes { outputs } => {
                        if outputs {
                            let _ =
                                self.objects.put(&format!("{prefix}/outputs.pb"), bytes::Bytes::new()).await;
                        }
                        let _ = self.pods.delete(name, &DeleteParams::default().grace_period(0)).await;
                        return;
                    }
                }
            }
        };
        let evicted = state.is_null();
        let statuses = if evicted {
            json!([])
        } else {
            json!([{"name": "primary", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
        };
        let reason = if evicted { json!("Evicted") } else { Value::Null };
        let conditions = json!([{"type": "PodScheduled", "status": "True"}]);
        let status = json!({"status": {
            "phase": phase, "reason": reason, "containerStatuses": statuses, "conditions": conditions}});
        // A node tries until the server takes it.
        for _ in 0..50 {
            match self.pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 404 => break,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

fn now() -> String {
    flyte_core::Timestamp::from_ms(entropy::wall_ms()).to_string()
}

fn ended(code: i32) -> Value {
    json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }, "finishedAt": now()}})
}

/// The prefix that the Pod's process would write to, from its arguments.
fn outputs_of(pod: &Value) -> String {
    pod["spec"]["containers"][0]["args"][1].as_str().unwrap_or_default().to_string()
}
