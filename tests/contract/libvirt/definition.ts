// SPDX-License-Identifier: Apache-2.0
// The planned domain of a VMI, with the launcher's directories elsewhere.
import { join } from "node:path";
import { networkConfigOf, type VirtualMachineInstance } from "@patchbay/api";
import { buildMachineUuid, planNodeVm, type NodeVmFacts } from "@patchbay/core/vm";
import { makeOwnDirectory } from "./session.ts";

/** The launcher's directories in domains, and their place below the test's own. */
const PLACES = {
  "/run/launcher": "l",
  "/run/disks": "d",
  "/run/state": "s",
  "/run/kernel-boot": "k",
} as const;

export type NicFacts = NodeVmFacts["ifaces"][number];

/** The place of a launcher's directory below the test's. */
export function placeOf(base: string, there: keyof typeof PLACES): string {
  return join(base, PLACES[there]);
}

/** Creates the directories for the launchers' user. */
export function makePlaces(base: string): void {
  for (const here of Object.values(PLACES)) makeOwnDirectory(join(base, here));
}

/** The XML of an emulated VMI with these wired NICs. */
export function definitionOf(
  base: string,
  vmi: VirtualMachineInstance,
  ifaces: readonly NicFacts[] = [],
): string {
  const network = { ...networkConfigOf(undefined), pcieRootPorts: 2 };
  const uuid = buildMachineUuid(vmi);
  const facts = {
    vmi,
    role: "owner",
    network,
    uuid,
    ifaces,
    domain: undefined,
    unplugRequests: {},
  } as const;
  const [define] = planNodeVm({ ...facts, useEmulation: true });
  if (define?.kind !== "defineDomain") throw new Error("the plan does not begin with the domain");
  return Object.entries(PLACES).reduce(
    (xml, [there, here]) => xml.replaceAll(`${there}/`, `${join(base, here)}/`),
    define.xml,
  );
}
