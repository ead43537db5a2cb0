// SPDX-License-Identifier: Apache-2.0
// What a cluster's server asks the kubelet of a pod's node for. This server speaks to no kubelet, and says so.
import { StatusError, notFound } from "../http/status.ts";
import { type Call, type Deps, aboutOf, addressOf } from "./call.ts";

/** Refuses logs, exec, attach and port-forward. Throws StatusErrors 404 and 501. */
export function refuseKubelet(call: Call, deps: Deps): never {
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
