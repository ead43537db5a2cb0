// SPDX-License-Identifier: Apache-2.0
// Scenarios whose result must not depend on process deaths.
import type { VirtualMachine } from "@patchbay/api";
import { aVm, type NicSketch } from "@patchbay/support";
import type { Cluster } from "./memory/cluster.ts";

export const ONE: NicSketch = { name: "one", mac: "02:00:00:00:00:01" };
export const TWO: NicSketch = { name: "two", mac: "02:00:00:00:00:02" };
const THREE: NicSketch = { name: "three", mac: "02:00:00:00:00:03", network: "red" };

function vmWith(nics: readonly NicSketch[]): VirtualMachine {
  const { metadata, ...vm } = aVm({ nics });
  const { name, namespace = "" } = metadata;
  return { ...vm, metadata: { name, namespace } };
}

function withNics(vm: VirtualMachine, nics: readonly NicSketch[]): VirtualMachine {
  return { ...vm, spec: { ...vm.spec, template: vmWith(nics).spec.template } };
}

export interface Story {
  readonly name: string;
  /** Initial NICs of the running VM; unset: no VM. */
  readonly before?: readonly NicSketch[];
  readonly act: (cluster: Cluster) => Promise<void>;
  /** Final NICs of the guest. */
  readonly after: readonly string[];
}

/** Changes the running VM's NICs. */
export function nicsBecome(nics: readonly NicSketch[]): Story["act"] {
  return (cluster) => cluster.editVm((vm) => withNics(vm, nics));
}

export const STORIES: readonly Story[] = [
  {
    name: "a start",
    act: (cluster) => cluster.createVm(vmWith([ONE, THREE])),
    after: ["one", "three"],
  },
  { name: "a plug", before: [ONE], act: nicsBecome([ONE, TWO]), after: ["one", "two"] },
  { name: "an unplug", before: [ONE, TWO], act: nicsBecome([ONE]), after: ["one"] },
  {
    name: "a plug and an unplug at once",
    before: [ONE, TWO],
    // Whether the unplugged NIC's port is free by then does not depend on the death.
    act: nicsBecome([ONE, { ...THREE, pciAddress: "0000:04:00.0" }]),
    after: ["one", "three"],
  },
  {
    name: "a link that goes down",
    before: [ONE],
    act: nicsBecome([{ ...ONE, state: "down" }]),
    after: ["one"],
  },
  {
    name: "a move to another network",
    before: [ONE, TWO],
    act: nicsBecome([{ ...ONE, network: "red" }, TWO]),
    after: ["one", "two"],
  },
  {
    name: "a move to another network and back",
    before: [ONE],
    act: async (cluster) => {
      await nicsBecome([{ ...ONE, network: "red" }])(cluster);
      await nicsBecome([ONE])(cluster);
    },
    after: ["one"],
  },
  {
    name: "two NICs that change places",
    before: [ONE, THREE],
    act: nicsBecome([
      { ...ONE, network: "red" },
      { ...THREE, network: "blue" },
    ]),
    after: ["one", "three"],
  },
  {
    name: "a move of a NIC whose link is down, and an unplug",
    before: [{ ...ONE, state: "down" }, TWO],
    act: nicsBecome([{ ...ONE, network: "red", state: "down" }]),
    after: ["one"],
  },
  { name: "the end of a VM", before: [ONE, TWO], act: (cluster) => cluster.deleteVm(), after: [] },
];

/** A cluster just before the scenario. */
export async function begin(story: Pick<Story, "before">, cluster: Cluster): Promise<Cluster> {
  await cluster.putNetworks("blue", "red");
  if (story.before !== undefined) await cluster.createVm(vmWith(story.before));
  await cluster.settle();
  return cluster;
}
