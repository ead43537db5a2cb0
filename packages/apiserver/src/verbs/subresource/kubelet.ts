// SPDX-License-Identifier: Apache-2.0
// What a cluster's server asks the kubelet of a pod's node for, and this one does not.
import { StatusError, notFound } from "../../meta/status.ts";
import { connectionOf } from "../../kubelet/exec-options.ts";
import { admitBody } from "./admit-body.ts";
import { type Call, aboutOf, addressOf } from "../call.ts";
import type { VerbDeps } from "../deps.ts";

/** Kinds of what a client says when it connects to a pod. */
const CONNECTIONS: Readonly<Record<string, string>> = {
  attach: "PodAttachOptions",
  portforward: "PodPortForwardOptions",
};

/** Refuses attach and port-forward; admission is asked before. Throws StatusErrors 404 and 501, and what admission throws. */
export async function refuseKubelet(call: Call, deps: VerbDeps): Promise<never> {
  const name = CONNECTIONS[call.subresource];
  if (name !== undefined) {
    const kind = { group: "", version: "v1", kind: name };
    await admitBody(call, deps, { kind, body: connectionOf(call.query), operation: "CONNECT" });
  }
  if (deps.store.find(addressOf(call)) === undefined) {
    throw notFound(aboutOf(call.kind), call.name);
  }
  throw new StatusError({
    code: 501,
    reason: "NotImplemented",
    message: `pods/${call.subresource} is not served here`,
    details: { name: call.name, kind: call.kind.resource },
  });
}
