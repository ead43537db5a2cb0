// SPDX-License-Identifier: Apache-2.0
// Rows about KubeVirt's queue of requests in a VM's status. Patchbay writes each request into the spec at once.
import { isAbsent, type Iface, type Network } from "@patchbay/api";
import type { NicPlan } from "../requests/refusal.ts";
import { add, aVm, aVmi, POD_IFACE, POD_NETWORK, remove } from "./nic-requests.ts";

interface QueuedRequest {
  readonly addInterfaceOptions?: {
    readonly name: string;
    readonly networkAttachmentDefinitionName?: string;
  };
  readonly removeInterfaceOptions?: { readonly name: string };
}

interface QueueRow {
  readonly request: QueuedRequest;
  readonly existing: readonly QueuedRequest[];
}

interface Nics {
  readonly networks: readonly Network[];
  readonly ifaces: readonly Iface[];
}

function nadOf(name: string): string {
  return `${name}-nad`;
}

/** Adds a NIC for each removal, because it must exist. */
function nicsBefore(requests: readonly QueuedRequest[]): Nics {
  const names = requests.flatMap(({ removeInterfaceOptions: options }) => options?.name ?? []);
  return {
    networks: [
      POD_NETWORK,
      ...names.map((name) => ({ name, multus: { networkName: nadOf(name) } })),
    ],
    ifaces: [POD_IFACE, ...names.map((name) => ({ name, bridge: {} }))],
  };
}

function written(plan: NicPlan, nics: Nics): Nics {
  if (plan.kind !== "patch") return nics;
  const valueAt = (end: string): unknown =>
    plan.operations.flatMap((each) =>
      each.op === "add" && each.path.endsWith(end) ? [each.value] : [],
    )[0];
  // The plan writes both lists completely.
  return {
    networks: (valueAt("/networks") ?? nics.networks) as readonly Network[],
    ifaces: (valueAt("/interfaces") ?? nics.ifaces) as readonly Iface[],
  };
}

/** Names of a VM's NICs after the requests. Unplugged ones have a minus. */
export function nicsAfterRequests({ request, existing }: QueueRow): readonly string[] {
  const requests = [...existing, request];
  const before = nicsBefore(requests);
  const after = requests.reduce<Nics>((nics, each) => {
    const target = { kind: "vm", vm: aVm(nics), vmi: aVmi(before) } as const;
    const { addInterfaceOptions: plug, removeInterfaceOptions: unplug } = each;
    if (unplug !== undefined) return written(remove(target, unplug.name), nics);
    const { name = "", networkAttachmentDefinitionName = nadOf(name) } = plug ?? {};
    return written(add(target, { name, networkAttachmentDefinitionName }), nics);
  }, before);
  return after.ifaces.map((iface) => (isAbsent(iface) ? `-${iface.name}` : iface.name));
}
