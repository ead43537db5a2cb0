// SPDX-License-Identifier: Apache-2.0
// What a cluster's server asks the kubelet of a pod's node for. This server speaks to no kubelet, and says so.
import { StatusError, notFound } from "../../meta/status.ts";
import type { Fields } from "../../objects/json.ts";
import { admitBody } from "./admit-body.ts";
import { type Call, aboutOf, addressOf } from "../call.ts";
import type { VerbDeps } from "../deps.ts";

/** Kinds of what a client says when it connects to a pod. Logs are read, not connected to. */
const CONNECTIONS: Readonly<Record<string, string>> = {
  attach: "PodAttachOptions",
  exec: "PodExecOptions",
  portforward: "PodPortForwardOptions",
};

const FLAGS: readonly string[] = ["stdin", "stdout", "stderr", "tty"];

/** What the client says, from the query. */
function connectionOf(query: URLSearchParams): Fields {
  const flags = FLAGS.filter((name) => query.get(name) === "true").map(
    (name) => [name, true] as const,
  );
  const command = query.getAll("command");
  const container = query.get("container") ?? "";
  return {
    ...Object.fromEntries(flags),
    ...(container === "" ? {} : { container }),
    ...(command.length === 0 ? {} : { command }),
  };
}

/** Refuses logs, exec, attach and port-forward; admission is asked before. Throws StatusErrors 404 and 501, and what admission throws. */
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
    message: `this server has no connection to kubelets, so pods/${call.subresource} is not served: ask on the pod's node`,
    details: { name: call.name, kind: call.kind.resource },
  });
}
