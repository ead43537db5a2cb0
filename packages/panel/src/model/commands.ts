// SPDX-License-Identifier: Apache-2.0
// Which command, and which lines of YAML, do the same as a change? Pure.
import { stringify } from "yaml";
import { asksOf, type Change, type PowerAction } from "./changes.ts";
import { newVmObjects } from "./new-vm.ts";
import type { Machine } from "./nic/plug.ts";
import { NO_PROBATION, probationFlags, type Probation } from "./probation.ts";

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./:=@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

function line(...words: readonly string[]): string {
  return words.map(quoted).join(" ");
}

function patchCommand(
  change: Extract<Change, { kind: "move" | "link" }>,
  machine: Machine,
): string {
  const [ask] = asksOf(change, machine);
  const { namespace, name, kind } = change.unit;
  const text = JSON.stringify(ask?.body);
  return line(
    "kubectl",
    "patch",
    kind.slice(0, -1),
    name,
    "-n",
    namespace,
    "--type=json",
    "-p",
    text,
  );
}

/** The command. */
export function commandOf(
  change: Change,
  machine: Machine,
  probation: Probation = NO_PROBATION,
): string {
  if (change.kind === "create") return "kubectl apply -f vm.yaml";
  if (change.kind === "move" || change.kind === "link") return patchCommand(change, machine);
  const { namespace, name, kind } = change.unit;
  const where = ["-n", namespace, ...(kind === "virtualmachineinstances" ? ["--vmi"] : [])];
  switch (change.kind) {
    case "plug": {
      const network = ["--network-attachment-definition-name", change.network];
      return line(
        "kubectl",
        "patchbay",
        "addinterface",
        name,
        ...where,
        ...network,
        "--name",
        change.iface,
        ...probationFlags(probation),
      );
    }
    case "pull":
      return line("kubectl", "patchbay", "removeinterface", name, ...where, "--name", change.iface);
    case "power":
      return change.action === "delete"
        ? line("kubectl", "delete", kind.slice(0, -1), name, "-n", namespace)
        : line("kubectl", "patchbay", change.action, name, "-n", namespace);
  }
}

type Entry = Readonly<Record<string, unknown>> & { readonly name: string };

/** Declared NICs, and their networks. */
export interface Lists {
  readonly interfaces: readonly Entry[];
  readonly networks: readonly Entry[];
}

/** The lists as they are declared. */
export function listsOf({ vm, vmi }: Machine): Lists {
  const spec = vm?.spec.template.spec ?? vmi?.spec;
  return {
    interfaces: spec?.domain.devices?.interfaces ?? [],
    networks: spec?.networks ?? [],
  };
}

/** The lists with a change. */
export function changedLists({ interfaces, networks }: Lists, change: Change): Lists {
  switch (change.kind) {
    case "plug":
      return {
        interfaces: [
          ...interfaces,
          { name: change.iface, bridge: {}, ...(change.link === "down" && { state: "down" }) },
        ],
        networks: [...networks, { name: change.iface, multus: { networkName: change.network } }],
      };
    case "move": {
      const moved = { name: change.iface, multus: { networkName: change.network } };
      const swap = (each: Entry): Entry => (each.name === change.iface ? moved : each);
      return { interfaces, networks: networks.map(swap) };
    }
    case "pull": {
      const stays = ({ name }: Entry): boolean => name !== change.iface;
      return { interfaces: interfaces.filter(stays), networks: networks.filter(stays) };
    }
    case "link": {
      const set = (each: Entry): Entry =>
        each.name === change.iface ? { ...each, state: change.to } : each;
      return { interfaces: interfaces.map(set), networks };
    }
    case "power":
    case "create":
      return { interfaces, networks };
  }
}

const STRATEGY: Readonly<Partial<Record<PowerAction, string>>> = {
  start: "Always",
  stop: "Halted",
  restart: "Always",
};

/** What the object says afterwards. */
export function yamlOf(change: Change, machine: Machine): string {
  if (change.kind === "create") {
    return newVmObjects(change.order)
      .map((object) => stringify(object, { blockQuote: "literal", lineWidth: 0 }))
      .join("---\n");
  }
  const { namespace, name, kind } = change.unit;
  const isVm = kind === "virtualmachines";
  const head = {
    apiVersion: "kubevirt.io/v1",
    kind: isVm ? "VirtualMachine" : "VirtualMachineInstance",
    metadata: { namespace, name },
  };
  if (change.kind === "power") {
    if (STRATEGY[change.action] === undefined) return "# no field of the object does this\n";
    return stringify({ ...head, spec: { runStrategy: STRATEGY[change.action] } });
  }
  const { interfaces, networks } = changedLists(listsOf(machine), change);
  const spec = { domain: { devices: { interfaces } }, networks };
  return stringify({ ...head, spec: isVm ? { template: { spec } } : spec });
}
