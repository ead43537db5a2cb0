// SPDX-License-Identifier: Apache-2.0
// What a cluster's server asks the kubelet of a pod's node for, and this one does not: ports of pods.
import { StatusError, notFound } from "../../meta/status.ts";
import { admitBody } from "./admit-body.ts";
import { type Call, aboutOf, addressOf } from "../call.ts";
import type { VerbDeps } from "../deps.ts";

/** Refuses port-forward; admission is asked before. Throws StatusErrors 404 and 501, and what admission throws. */
export async function refusePortForward(call: Call, deps: VerbDeps): Promise<never> {
  const kind = { group: "", version: "v1", kind: "PodPortForwardOptions" };
  await admitBody(call, deps, { kind, body: {}, operation: "CONNECT" });
  if (deps.store.find(addressOf(call)) === undefined) {
    throw notFound(aboutOf(call.kind), call.name);
  }
  throw new StatusError({
    code: 501,
    reason: "NotImplemented",
    message: "pods/portforward is not served here",
    details: { name: call.name, kind: call.kind.resource },
  });
}
