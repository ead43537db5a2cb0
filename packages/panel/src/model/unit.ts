// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { listOperations, type OperationRow } from "./nic/history.ts";
import { isLive, listPlugs, type VmObjects, type Plug } from "./nic/plug.ts";
import { toLongText, toShortText } from "./shown.ts";

export type UnitTone = "running" | "changing" | "stopped" | "failing";

export interface Sockets {
  readonly total: number;
  readonly free: number;
}

export interface Notice {
  readonly tone: "failing" | "waiting";
  readonly title: string;
  readonly text: string;
}

/** A VM, or a VMI without a VM. */
export interface Unit {
  /** `namespace/name` of the VM. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly kind: "virtualmachines" | "virtualmachineinstances";
  readonly tone: UnitTone;
  readonly state: string;
  readonly isLive: boolean;
  readonly node?: string;
  readonly system?: string;
  readonly memory?: string;
  readonly plugs: readonly Plug[];
  readonly done: ReadonlyMap<string, readonly OperationRow[]>;
  /** PCIe sockets of the guest; unset unless the guest runs. */
  readonly sockets?: Sockets;
  readonly notices: readonly Notice[];
  readonly conditions: readonly (readonly [type: string, text: string])[];
  readonly isPaused: boolean;
}

const CHANGING_STATES = [
  "Starting",
  "Stopping",
  "Terminating",
  "Provisioning",
  "Migrating",
  "WaitingForVolumeBinding",
];
const STOPPED_STATES = ["Stopped", "Succeeded", "Failed", "Paused"];

function findState({ vm, vmi }: VmObjects): string {
  const printed = vm?.status?.printableStatus;
  if (printed !== undefined) return printed;
  const phase = vmi?.status?.phase;
  return phase === undefined || phase === "" ? (vm === undefined ? "Pending" : "Stopped") : phase;
}

function findTone(state: string, vmi: VirtualMachineInstance | undefined): UnitTone {
  if (vmi?.status?.blockedReason !== undefined) return "failing";
  if (state === "Running") return "running";
  if (CHANGING_STATES.includes(state) || ["Pending", "Scheduling", "Scheduled"].includes(state)) {
    return "changing";
  }
  return STOPPED_STATES.includes(state) ? "stopped" : "failing";
}

interface Condition {
  readonly type?: string;
  readonly status?: string;
  readonly message?: string;
}

function findConditionMessage(
  conditions: readonly Condition[] | undefined,
  type: string,
): string | undefined {
  const found = conditions?.find((each) => each.type === type && each.status === "True");
  return found === undefined ? undefined : (found.message ?? "");
}

function listNotices({ vm, vmi }: VmObjects): readonly Notice[] {
  const { blockedReason } = vmi?.status ?? {};
  const restart = findConditionMessage(vm?.status?.conditions, "RestartRequired");
  const failure = findConditionMessage(vm?.status?.conditions, "Failure");
  return [
    ...(blockedReason === undefined
      ? []
      : [
          {
            tone: "failing",
            title: toShortText(blockedReason.reason),
            text: toLongText(blockedReason.message),
          } as const,
        ]),
    ...(failure === undefined
      ? []
      : [{ tone: "failing", title: "does not start", text: toLongText(failure) } as const]),
    ...(restart === undefined
      ? []
      : [{ tone: "waiting", title: "restart needed", text: toLongText(restart) } as const]),
  ];
}

function listConditions({ vm, vmi }: VmObjects): Unit["conditions"] {
  const own = vmi?.status?.conditions ?? vm?.status?.conditions ?? [];
  const restart = (vm?.status?.conditions ?? []).filter(({ type }) => type === "RestartRequired");
  const all = new Map([...restart, ...own].map((each) => [each.type, each]));
  return [...all.values()].map(({ type, status, reason = "", message = "" }) => {
    const why = [reason, message].filter((text) => text !== "").join(": ");
    return [toShortText(type), toLongText(why === "" ? status : `${status} (${why})`)] as const;
  });
}

function findMemory({ vm, vmi }: VmObjects): string | undefined {
  const spec = vmi?.spec ?? vm?.spec.template.spec;
  const memory = spec?.domain.memory?.guest;
  return memory === undefined ? undefined : toShortText(String(memory));
}

function liveFacts(vmi: VirtualMachineInstance | undefined): Partial<Unit> {
  if (!isLive(vmi)) return {};
  const { nodeName, guestOSInfo, pciePorts } = vmi?.status ?? {};
  const system = guestOSInfo?.prettyName;
  return {
    ...(nodeName !== undefined && nodeName !== "" && { node: toShortText(nodeName) }),
    ...(system !== undefined && system !== "" && { system: toShortText(system) }),
    ...(pciePorts !== undefined && { sockets: pciePorts }),
  };
}

export function toUnit(key: string, objects: VmObjects): Unit {
  const [namespace = "", name = ""] = key.split("/");
  const state = findState(objects);
  const memory = findMemory(objects);
  return {
    key,
    namespace,
    name,
    kind: objects.vm === undefined ? "virtualmachineinstances" : "virtualmachines",
    tone: findTone(state, objects.vmi),
    state: toShortText(state),
    isLive: isLive(objects.vmi),
    plugs: listPlugs(objects),
    done: listOperations(objects),
    notices: listNotices(objects),
    conditions: listConditions(objects),
    isPaused: findConditionMessage(objects.vmi?.status?.conditions, "Paused") !== undefined,
    ...liveFacts(objects.vmi),
    ...(memory !== undefined && { memory }),
  };
}

interface CachedUnit {
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly unit: Unit;
}

/** Cache of units by the identity of their objects, so that only units of changed objects are computed again. */
export class UnitCache {
  #cached = new Map<string, CachedUnit>();

  list(
    vms: ReadonlyMap<string, VirtualMachine>,
    vmis: ReadonlyMap<string, VirtualMachineInstance>,
  ): readonly Unit[] {
    const next = new Map<string, CachedUnit>();
    for (const key of new Set([...vms.keys(), ...vmis.keys()])) {
      const [vm, vmi, known] = [vms.get(key), vmis.get(key), this.#cached.get(key)];
      const isSame = known?.vm === vm && known?.vmi === vmi;
      next.set(key, isSame && known ? known : { vm, vmi, unit: toUnit(key, { vm, vmi }) });
    }
    this.#cached = next;
    const keys = [...next.keys()].sort();
    return keys.flatMap((key) => next.get(key)?.unit ?? []);
  }
}
