// SPDX-License-Identifier: Apache-2.0
import { parsePciAddress, printPciAddress, type PciAddress } from "../pci/addresses.ts";
import { planTopology, type UnplacedNic, type Topology } from "../pci/topology.ts";

export function at(text: string): PciAddress {
  const address = parsePciAddress(text);
  if (address === undefined) throw new Error(`${text} is no address`);
  return address;
}

export function aNic(name: string, more: Partial<UnplacedNic> = {}): UnplacedNic {
  return { name, model: "virtio", queues: 1, ...more };
}

export type TopologyRequest = Parameters<typeof planTopology>[0];

export function aRequest(more: Partial<TopologyRequest> = {}): TopologyRequest {
  return {
    version: 1,
    family: "q35",
    vcpus: 1,
    reserve: 32,
    devices: [],
    nics: [],
    isOnRootComplex: false,
    ...more,
  };
}

export function planned(request: TopologyRequest): Topology {
  const plan = planTopology(request);
  if (!plan.ok) throw new Error(plan.problems.map(({ message }) => message).join("; "));
  return plan.topology;
}

export function printAddresses(topology: Topology): Readonly<Record<string, string>> {
  const printed = [...topology.nicAddresses].map(([name, address]) => [
    name,
    printPciAddress(address),
  ]);
  return Object.fromEntries(printed) as Readonly<Record<string, string>>;
}
