// SPDX-License-Identifier: Apache-2.0
// What is one VM, as a unit of the rack? Pure.
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { doneWith, type DoneRow } from "./nic/history.ts";
import { isLive, plugsOf, type Machine, type Plug } from "./nic/plug.ts";
import { long, short } from "./shown.ts";

/** How a VM is, as a colour. */
export type UnitTone = "running" | "changing" | "stopped" | "failing";

/** Its PCIe ports. */
export interface Sockets {
  readonly total: number;
  readonly free: number;
}

/** Something that a person should know of a VM. */
export interface Notice {
  readonly tone: "failing" | "waiting";
  readonly title: string;
  readonly text: string;
}

/** A VM, or a VMI without one. */
export interface Unit {
  /** `namespace/name` */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly kind: "virtualmachines" | "virtualmachineinstances";
  readonly tone: UnitTone;
  /** In few words. */
  readonly state: string;
  readonly isLive: boolean;
  readonly node?: string;
  readonly system?: string;
  readonly memory?: string;
  readonly plugs: readonly Plug[];
  /** What was done with its NICs, by their names, the newest first. */
  readonly done: ReadonlyMap<string, readonly DoneRow[]>;
  /** Known while the guest runs. */
  readonly sockets?: Sockets;
  readonly notices: readonly Notice[];
  /** Of the VM and its VMI: what each says, in one line. */
  readonly conditions: readonly (readonly [type: string, text: string])[];
  readonly isPaused: boolean;
}

const CHANGING = [
  "Starting",
  "Stopping",
  "Terminating",
  "Provisioning",
  "Migrating",
  "WaitingForVolumeBinding",
];
const STOPPED = ["Stopped", "Succeeded", "Failed", "Paused"];

function stateWord({ vm, vmi }: Machine): string {
  const printed = vm?.status?.printableStatus;
  if (printed !== undefined) return printed;
  const phase = vmi?.status?.phase;
  return phase === undefined || phase === "" ? (vm === undefined ? "Pending" : "Stopped") : phase;
}

function toneOf(word: string, vmi: VirtualMachineInstance | undefined): UnitTone {
  if (vmi?.status?.hindrance !== undefined) return "failing";
  if (word === "Running") return "running";
  if (CHANGING.includes(word) || ["Pending", "Scheduling", "Scheduled"].includes(word)) {
    return "changing";
  }
  return STOPPED.includes(word) ? "stopped" : "failing";
}

interface Condition {
  readonly type?: string;
  readonly status?: string;
  readonly message?: string;
}

function messageOf(conditions: readonly Condition[] | undefined, type: string): string | undefined {
  const found = conditions?.find((each) => each.type === type && each.status === "True");
  return found === undefined ? undefined : (found.message ?? "");
}

function noticesOf({ vm, vmi }: Machine): readonly Notice[] {
  const { hindrance } = vmi?.status ?? {};
  const restart = messageOf(vm?.status?.conditions, "RestartRequired");
  const failure = messageOf(vm?.status?.conditions, "Failure");
  return [
    ...(hindrance === undefined
      ? []
      : [
          {
            tone: "failing",
            title: short(hindrance.reason),
            text: long(hindrance.message),
          } as const,
        ]),
    ...(failure === undefined
      ? []
      : [{ tone: "failing", title: "does not start", text: long(failure) } as const]),
    ...(restart === undefined
      ? []
      : [{ tone: "waiting", title: "restart needed", text: long(restart) } as const]),
  ];
}

function conditionsOf({ vm, vmi }: Machine): Unit["conditions"] {
  const own = vmi?.status?.conditions ?? vm?.status?.conditions ?? [];
  const restart = (vm?.status?.conditions ?? []).filter(({ type }) => type === "RestartRequired");
  const all = new Map([...restart, ...own].map((each) => [each.type, each]));
  return [...all.values()].map(({ type, status, reason = "", message = "" }) => {
    const why = [reason, message].filter((text) => text !== "").join(": ");
    return [short(type), long(why === "" ? status : `${status} (${why})`)] as const;
  });
}

function memoryOf({ vm, vmi }: Machine): string | undefined {
  const spec = vmi?.spec ?? vm?.spec.template.spec;
  const memory = spec?.domain.memory?.guest;
  return memory === undefined ? undefined : short(String(memory));
}

function liveFacts(vmi: VirtualMachineInstance | undefined): Partial<Unit> {
  if (!isLive(vmi)) return {};
  const { nodeName, guestOSInfo, pciePorts } = vmi?.status ?? {};
  const system = guestOSInfo?.prettyName;
  return {
    ...(nodeName !== undefined && nodeName !== "" && { node: short(nodeName) }),
    ...(system !== undefined && system !== "" && { system: short(system) }),
    ...(pciePorts !== undefined && { sockets: pciePorts }),
  };
}

/** The unit of a machine. */
export function unitOf(key: string, machine: Machine): Unit {
  const [namespace = "", name = ""] = key.split("/");
  const word = stateWord(machine);
  const memory = memoryOf(machine);
  return {
    key,
    namespace,
    name,
    kind: machine.vm === undefined ? "virtualmachineinstances" : "virtualmachines",
    tone: toneOf(word, machine.vmi),
    state: short(word),
    isLive: isLive(machine.vmi),
    plugs: plugsOf(machine),
    done: doneWith(machine),
    notices: noticesOf(machine),
    conditions: conditionsOf(machine),
    isPaused: messageOf(machine.vmi?.status?.conditions, "Paused") !== undefined,
    ...liveFacts(machine.vmi),
    ...(memory !== undefined && { memory }),
  };
}

interface Kept {
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly unit: Unit;
}

/** Keeps units whose objects are the same ones: of many VMs only those that changed are worked out anew. */
export class Units {
  #kept = new Map<string, Kept>();

  /** All units, by key. */
  of(
    vms: ReadonlyMap<string, VirtualMachine>,
    vmis: ReadonlyMap<string, VirtualMachineInstance>,
  ): readonly Unit[] {
    const next = new Map<string, Kept>();
    for (const key of new Set([...vms.keys(), ...vmis.keys()])) {
      const [vm, vmi, known] = [vms.get(key), vmis.get(key), this.#kept.get(key)];
      const isSame = known?.vm === vm && known?.vmi === vmi;
      next.set(key, isSame && known ? known : { vm, vmi, unit: unitOf(key, { vm, vmi }) });
    }
    this.#kept = next;
    const keys = [...next.keys()].sort();
    return keys.flatMap((key) => next.get(key)?.unit ?? []);
  }
}
