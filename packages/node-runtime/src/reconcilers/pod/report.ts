// SPDX-License-Identifier: Apache-2.0
// Writes what became of the pod into its status; nothing when it says so already.
import {
  names,
  parseNetworkStatus,
  PODS,
  printNetworkStatus,
  type NetworkStatus,
  type Pod,
} from "@patchbay/api";
import { networkStatusOf } from "@patchbay/cni";
import { covers, messageOf } from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { PodFacts } from "../../pod/facts.ts";
import {
  hasForeignCondition,
  podStatusOf,
  type PodStatus,
  type StatusContext,
} from "../../pod/status.ts";

/** The entry of the default network, as Multus writes it when a pod is made. */
function defaultNetworkOf(facts: PodFacts): NetworkStatus | undefined {
  const { request, result } = facts.record ?? {};
  if (request === undefined || result === undefined || !facts.isRecordCurrent) return undefined;
  return { ...networkStatusOf(result, request.config.name, request.interfaceName), default: true };
}

/** The annotation with the default network, or undefined when it is there. */
function annotationsFor(
  pod: Pod,
  entry: NetworkStatus | undefined,
): Readonly<Record<string, string>> | undefined {
  const text = pod.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION];
  const entries = parseNetworkStatus(text);
  if (entry === undefined || entries.some((other) => other.default === true)) return undefined;
  return { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus([entry, ...entries]) };
}

function statusFor(
  facts: PodFacts & { readonly pod: Pod },
  entry: NetworkStatus | undefined,
  context: Pick<StatusContext, "hostIp" | "now" | "failure">,
): PodStatus {
  const podIps = entry?.ips ?? facts.pod.status?.podIPs?.map(({ ip }) => ip) ?? [];
  return podStatusOf(facts, { ...context, podIps });
}

/** Reports on `facts`, which were read after the actions. */
export async function report(facts: PodFacts, failure: unknown, deps: Deps): Promise<void> {
  const { pod } = facts;
  if (pod === undefined) return;
  const entry = defaultNetworkOf(facts);
  const now = printTime(deps.clock.now());
  const status = statusFor({ ...facts, pod }, entry, {
    ...{ hostIp: deps.hostIp, now },
    ...(failure === undefined ? {} : { failure: messageOf(failure) }),
  });
  const annotations = annotationsFor(pod, entry);
  if (covers(pod.status, status) && annotations === undefined) return;
  // Lists that others write too are written whole: not over what they have added meanwhile.
  const isShared = annotations !== undefined || hasForeignCondition(status);
  const { resourceVersion } = pod.metadata;
  const metadata = {
    ...(isShared ? { resourceVersion } : {}),
    ...(annotations === undefined ? {} : { annotations }),
  };
  const fields = { status, metadata };
  await deps.store.patch(PODS, keyOf(pod), { type: "merge", fields }, { subresource: "status" });
}
