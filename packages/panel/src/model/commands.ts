// SPDX-License-Identifier: Apache-2.0
// Prints the commands and the YAML with which users can make the panel's changes, and combines a VM's NIC changes in one request.
import { createVmObjects, listVmObjects } from "@patchbay/core/new-vm";
import { locateNics } from "@patchbay/core/nics";
import { stringify } from "yaml";
import {
  type ApiRequest,
  toRequests,
  type Change,
  PATCH_TYPE,
  patchPath,
  type PowerAction,
} from "./changes.ts";
import type { VmObjects } from "./nic/plug.ts";
import { NO_PLUG_CHECK, type PlugCheck, plugCheckFlags } from "./probation.ts";
import { toLongText } from "./shown.ts";
import { type Answer, isAppliedLater, isRefusal, type Verdict, printMessage } from "./verdict.ts";

export function quote(word: string): string {
  return /^[\w./:=@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

function printWords(...words: readonly string[]): string {
  return words.map(quote).join(" ");
}

function patchCommand(
  change: Extract<Change, { kind: "move" | "link" }>,
  objects: VmObjects,
): string {
  const [request] = toRequests(change, objects);
  const { namespace, name, kind } = change.unit;
  const text = JSON.stringify(request?.body);
  return printWords(
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

function toCommand(action: PowerAction): string {
  return action === "softreboot" ? "soft-reboot" : action;
}

export function printCommand(
  change: Change,
  objects: VmObjects,
  plugCheck: PlugCheck = NO_PLUG_CHECK,
): string {
  if (change.kind === "create") return "kubectl apply -f vm.yaml";
  if (change.kind === "move" || change.kind === "link") return patchCommand(change, objects);
  const { namespace, name, kind } = change.unit;
  const where = ["-n", namespace, ...(kind === "virtualmachineinstances" ? ["--vmi"] : [])];
  switch (change.kind) {
    case "plug": {
      const network = ["--network-attachment-definition-name", change.network];
      return printWords(
        "kubectl",
        "patchbay",
        "addinterface",
        name,
        ...where,
        ...network,
        "--name",
        change.iface,
        ...plugCheckFlags(plugCheck),
      );
    }
    case "pull":
      return printWords(
        "kubectl",
        "patchbay",
        "removeinterface",
        name,
        ...where,
        "--name",
        change.iface,
      );
    case "power":
      return change.action === "delete"
        ? printWords("kubectl", "delete", kind.slice(0, -1), name, "-n", namespace)
        : printWords("kubectl", "patchbay", toCommand(change.action), name, "-n", namespace);
  }
}

type Entry = Readonly<Record<string, unknown>> & { readonly name: string };

interface Lists {
  readonly interfaces: readonly Entry[];
  readonly networks: readonly Entry[];
}

function readLists({ vm, vmi }: VmObjects): Lists {
  const spec = vm?.spec.template.spec ?? vmi?.spec;
  return {
    interfaces: spec?.domain.devices?.interfaces ?? [],
    networks: spec?.networks ?? [],
  };
}

function applyToLists({ interfaces, networks }: Lists, change: Change): Lists {
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
      const isOther = ({ name }: Entry): boolean => name !== change.iface;
      return { interfaces: interfaces.filter(isOther), networks: networks.filter(isOther) };
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

const RUN_STRATEGIES: Readonly<Partial<Record<PowerAction, string>>> = {
  start: "Always",
  stop: "Halted",
  restart: "Always",
};

export function printYaml(change: Change, objects: VmObjects): string {
  if (change.kind === "create") {
    const options = { aliasDuplicateObjects: false, blockQuote: "literal", lineWidth: 0 } as const;
    return listVmObjects(createVmObjects(change.order))
      .map((object) => stringify(object, options))
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
    if (RUN_STRATEGIES[change.action] === undefined) return "# no field of the object does this\n";
    return stringify({ ...head, spec: { runStrategy: RUN_STRATEGIES[change.action] } });
  }
  const { interfaces, networks } = applyToLists(readLists(objects), change);
  const spec = { domain: { devices: { interfaces } }, networks };
  return stringify({ ...head, spec: isVm ? { template: { spec } } : spec });
}

type NicChange = Extract<Change, { kind: "plug" | "move" | "pull" | "link" }>;

function isNicChange(change: Change): change is NicChange {
  return ["plug", "move", "pull", "link"].includes(change.kind);
}

export function listNicChanges(changes: readonly Change[], unit: string): readonly NicChange[] {
  return changes.filter(isNicChange).filter((change) => change.unit.key === unit);
}

/** Returns one patch with all changes; undefined for fewer than two changes, or if the VM has no list of interfaces or networks. */
export function combinedRequest(
  changes: readonly NicChange[],
  objects: VmObjects,
): ApiRequest | undefined {
  const [first] = changes;
  const { spec, base } = locateNics(objects);
  const { devices } = spec?.domain ?? {};
  if (first === undefined || changes.length < 2) return undefined;
  if (devices?.interfaces === undefined || spec?.networks === undefined) return undefined;
  const { interfaces, networks } = changes.reduce(applyToLists, readLists(objects));
  const paths = { nics: `${base}/domain/devices/interfaces`, networks: `${base}/networks` };
  return {
    method: "PATCH",
    path: patchPath(first.unit),
    body: [
      { op: "test", path: paths.nics, value: devices.interfaces },
      { op: "test", path: paths.networks, value: spec.networks },
      { op: "replace", path: paths.nics, value: interfaces },
      { op: "replace", path: paths.networks, value: networks },
    ],
    contentType: PATCH_TYPE,
  };
}

/**
 * Returns the verdict for the dry run of all changes together. `singleVerdicts` are the verdicts for the dry runs of the single changes.
 * If the combined dry run was refused, returns a refusal; otherwise, returns the last of `singleVerdicts` with the new warnings appended.
 * Returns undefined if all messages of the combined dry run are already in `singleVerdicts`.
 */
export function combinedVerdict(
  answer: Answer,
  singleVerdicts: readonly Verdict[],
): Verdict | undefined {
  const messages = isRefusal(answer) ? [printMessage(answer)] : answer.warnings.map(toLongText);
  const newMessages = messages.filter(
    (message) => !singleVerdicts.some(({ text }) => text.includes(message)),
  );
  if (newMessages.length === 0) return undefined;
  const text = `together with the other changes: ${newMessages.join("; ")}`;
  if (isRefusal(answer)) return { kind: "refused", text };
  const own = singleVerdicts.at(-1) ?? { kind: "live", text: "" };
  return {
    kind: isAppliedLater(text) ? "start" : own.kind,
    text: own.text === "" ? text : `${own.text}; ${text}`,
  };
}
