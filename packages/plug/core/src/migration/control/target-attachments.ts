// SPDX-License-Identifier: Apache-2.0
// What does the target's pod have for each NIC that goes along, and can the guest go on with it?
import {
  isDefaultNetwork,
  soundAddresses,
  type Attachment,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isEqual } from "../../equal.ts";
import { findByName, networksOf } from "../../spec/nics.ts";
import { attachmentStatuses } from "../../status/ifaces/attachments.ts";
import { podNetworkFacts } from "../../status/vmi.ts";
import type { MigrationFacts } from "./facts.ts";
import { travelView } from "./travellers.ts";

/** What the target's pod has for each iface that goes along. */
export function targetAttachments(
  { guest, targetAbsences }: MigrationFacts,
  pod: Pod,
): readonly Attachment[] {
  if (guest === undefined) return [];
  const { vmi, network } = guest;
  const view = travelView(vmi);
  const told = vmi.status?.migrationState?.targetAttachments ?? [];
  const attachments = (view.status?.attachments ?? []).map(
    (each) => told.find(({ podInterfaceName: nic }) => nic === each.podInterfaceName) ?? each,
  );
  const owner = {
    vmi: { ...view, status: { ...view.status, attachments } },
    bindings: network.bindings,
    absences: targetAbsences,
  };
  return attachmentStatuses(owner, podNetworkFacts(pod));
}

/** Addresses as they are compared; none of an attachment that is not there. */
function addressesOf(attachment: Attachment | undefined): readonly string[] {
  return attachment?.state === "Attached" ? soundAddresses(attachment.ips).toSorted() : [];
}

/** The pod network gives each pod its own: what guest can leave is hidden behind them. */
function isOnPodNetwork({ spec }: VirtualMachineInstance, { name }: Attachment): boolean {
  const network = findByName(networksOf(spec), name);
  return network !== undefined && isDefaultNetwork(network);
}

function difference(here: Attachment, there: Attachment | undefined): string | undefined {
  const [has, gets] = [addressesOf(here), addressesOf(there)];
  if (has.length === 0 || gets.length === 0 || isEqual(has, gets)) return undefined;
  return `network ${here.networkName ?? ""} gave interface ${here.name} other addresses on the target's node (${gets.join(", ")}) than the guest has (${has.join(", ")}); let its IPAM give the same ones on each node, or none`;
}

/** A guest keeps the addresses that its networks gave it: why it cannot, where the target's networks gave others. */
export function otherAddresses(facts: MigrationFacts): string | undefined {
  const { guest, targetPod } = facts;
  if (guest === undefined || targetPod === undefined) return undefined;
  const there = targetAttachments(facts, targetPod);
  const [first] = (guest.vmi.status?.attachments ?? [])
    .filter((here) => !isOnPodNetwork(guest.vmi, here))
    .flatMap((here) => difference(here, findByName(there, here.name)) ?? []);
  return first;
}
