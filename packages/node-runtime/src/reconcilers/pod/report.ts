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
import { isEqual, messageOf } from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { PodFacts } from "../../pod/facts.ts";
import { podStatusOf, type PodStatus, type StatusContext } from "../../pod/status.ts";

/** The entry of the default network, as Multus writes it when a pod is made. */
function defaultNetworkOf(facts: PodFacts): NetworkStatus | undefined {
  const { request, result } = facts.record ?? {};
  if (request === undefined || result === undefined || !facts.isRecordCurrent) return undefined;
  return { ...networkStatusOf(result, request.config.name, request.interfaceName), default: true };
}

/**
 * The annotation with the default network, or undefined when it is there. The write names the resourceVersion: others
 * add their entries meanwhile.
 */
function metadataFor(pod: Pod, entry: NetworkStatus | undefined): object | undefined {
  const text = pod.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION];
  const entries = parseNetworkStatus(text);
  if (entry === undefined || entries.some((other) => other.default === true)) return undefined;
  return {
    resourceVersion: pod.metadata.resourceVersion,
    annotations: { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus([entry, ...entries]) },
  };
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
  const metadata = metadataFor(pod, entry);
  const isSame = isEqual({ ...pod.status, ...status }, pod.status ?? {});
  if (isSame && metadata === undefined) return;
  const fields = { status, ...(metadata === undefined ? {} : { metadata }) };
  await deps.store.patch(PODS, keyOf(pod), { type: "merge", fields }, { subresource: "status" });
}
