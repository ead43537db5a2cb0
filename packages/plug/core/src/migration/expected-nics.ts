// SPDX-License-Identifier: Apache-2.0
// Which NICs does a guest bring along that comes to a node, and on which tap of the target's pod is each to hang? Pure.
import {
  names,
  type BindingRegistry,
  type IfaceStatus,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { BindingKind } from "../bindings/binding.ts";
import { bindingOf } from "../bindings/resolve-binding.ts";
import { socketLinkOf } from "../iface/links/socket-link.ts";
import { madeTapOf } from "../iface/names.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";
import { findCondition, PAUSED } from "../status/conditions.ts";
import type { ArrivedNic } from "./arrival.ts";

/** Ways of binding whose taps are ours. */
const MADE: readonly BindingKind[] = ["bridge", "masquerade", "managedTap"];

/** Ifaces that are in the guest, by the last word of the node that has it; also those that it was asked to let go of. */
export function broughtAlong({ status }: VirtualMachineInstance): readonly IfaceStatus[] {
  return (status?.interfaces ?? []).filter(
    ({ name, queueCount }) => name !== undefined && queueCount !== undefined,
  );
}

/** The tap, or the name of the socket, that the target's node makes for it; undefined: what it hangs on is others' to make. */
function tapOf(
  vmi: VirtualMachineInstance,
  name: string,
  bindings: BindingRegistry,
): string | undefined {
  const { kind } = bindingOf(
    findByName(ifacesOf(vmi.spec), name) ?? { name, bridge: {} },
    findByName(networksOf(vmi.spec), name),
    bindings,
  );
  const attachment = findByName(vmi.status?.migrationState?.targetAttachments, name);
  if (kind === "refused" || attachment === undefined) return undefined;
  const { podInterfaceName } = attachment;
  if (kind === "vhostuser") return `${names.LAUNCHER_DIR}/${socketLinkOf(podInterfaceName)}`;
  return MADE.includes(kind) ? madeTapOf(name, podInterfaceName) : undefined;
}

/** What is to come; of what hangs on what others make, with the tap that it has. */
export function expectedNics(
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
  came: readonly ArrivedNic[],
): readonly ArrivedNic[] {
  return broughtAlong(vmi).map(({ name = "", mac = "", pciAddress }) => {
    const nic = came.find((each) => each.mac === mac);
    return { mac, pciAddress, tap: tapOf(vmi, name, bindings) ?? nic?.tap };
  });
}

/** Whether the guest stood still where it was before it left: it does so wherever it is. */
export function staysPaused({ status }: VirtualMachineInstance): boolean {
  return findCondition(status?.conditions, PAUSED)?.status === "True";
}
