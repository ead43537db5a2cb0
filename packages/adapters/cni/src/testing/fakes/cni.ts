// SPDX-License-Identifier: Apache-2.0
// CNI in memory: attachments by sandbox and interface name.
import { AppError } from "@patchbay/base";
import type {
  AttachmentName,
  AttachmentRequest,
  Cni,
  CniResult,
  NetworkConfigList,
} from "@patchbay/core/interfaces";

/** What happens in the world when an attachment is made or taken away, for example in a fake of the kernel. */
export interface FakeCniEffects {
  attached?(request: AttachmentRequest, result: CniResult): void;
  detached?(request: AttachmentRequest): void;
}

/** A {@link Cni} in memory. */
export interface FakeCni extends Cni {
  /** The attachments that exist, as `containerId/interfaceName`, in the order in which they were made. */
  readonly attachments: readonly string[];
  /** All calls in order, as `ADD containerId/interfaceName`; also DEL, CHECK and RELEASE; `STATUS network`, `GC network` and what is valid. */
  readonly calls: readonly string[];
  /** The next call of this command throws the error; with `half` ADD leaves its attachment behind. */
  failNext(command: Command, error: unknown, half?: "half"): void;
  /** Failures that were announced and have not come will not come. */
  heal(): void;
  /** From now on plugins take no notice of a MAC that is asked for, as ptp and host-device. */
  ignoreMacs(): void;
}

/** Versions without CHECK, and the one with STATUS and GC. */
const OLD: readonly string[] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1"];
const NEWEST = "1.1.0";

type Command = "add" | "del" | "check" | "status" | "gc" | "release";

interface Failure {
  readonly error: unknown;
  readonly isHalf: boolean;
}

/** Makes a CNI that succeeds. The MAC is the one of CNI_ARGS `MAC`, else one that is made from the name. */
export function createFakeCni(effects: FakeCniEffects = {}): FakeCni {
  return new MemoryCni(effects);
}

class MemoryCni implements FakeCni {
  readonly #effects: FakeCniEffects;
  readonly #attached = new Map<string, AttachmentRequest>();
  readonly #calls: string[] = [];
  readonly #failures = new Map<Command, Failure>();
  #ignoresMacs = false;

  constructor(effects: FakeCniEffects) {
    this.#effects = effects;
  }

  get attachments(): readonly string[] {
    return [...this.#attached.keys()];
  }

  get calls(): readonly string[] {
    return this.#calls;
  }

  failNext(command: Command, error: unknown, half?: "half"): void {
    this.#failures.set(command, { error, isHalf: half === "half" });
  }

  heal(): void {
    this.#failures.clear();
  }

  ignoreMacs(): void {
    this.#ignoresMacs = true;
  }

  async add(request: AttachmentRequest): Promise<CniResult> {
    await Promise.resolve();
    const key = toKey(request);
    this.#calls.push(`ADD ${key}`);
    const failure = this.#takeFailure("add");
    if (failure?.isHalf === false) throw failure.error;
    if (this.#attached.has(key)) {
      const plugin = request.config.plugins[0]?.type ?? "fake";
      const message = `interface ${request.interfaceName} already exists`;
      throw new AppError("CNI_PLUGIN_FAILED", { plugin, command: "ADD", message, cniCode: 999 });
    }
    this.#attached.set(key, request);
    const result = buildResult(this.#ignoresMacs ? { ...request, args: [] } : request);
    this.#effects.attached?.(request, result);
    if (failure !== undefined) throw failure.error;
    return result;
  }

  async del(request: AttachmentRequest): Promise<void> {
    await Promise.resolve();
    this.#calls.push(`DEL ${toKey(request)}`);
    const failure = this.#takeFailure("del");
    if (failure !== undefined) throw failure.error;
    this.#attached.delete(toKey(request));
    this.#effects.detached?.(request);
  }

  async check(request: AttachmentRequest, prevResult: CniResult): Promise<boolean> {
    await Promise.resolve();
    const { config } = request;
    if (config.disableCheck === true || OLD.includes(prevResult.cniVersion)) return false;
    this.#calls.push(`CHECK ${toKey(request)}`);
    const failure = this.#takeFailure("check");
    if (failure !== undefined) throw failure.error;
    if (this.#attached.has(toKey(request))) return true;
    const plugin = config.plugins[0]?.type ?? "fake";
    const message = `interface ${request.interfaceName} does not exist`;
    throw new AppError("CNI_PLUGIN_FAILED", { plugin, command: "CHECK", message, cniCode: 999 });
  }

  async status(config: NetworkConfigList): Promise<boolean> {
    await Promise.resolve();
    if (config.cniVersion !== NEWEST) return false;
    this.#calls.push(`STATUS ${config.name}`);
    const failure = this.#takeFailure("status");
    if (failure !== undefined) throw failure.error;
    return true;
  }

  async gc(
    config: NetworkConfigList,
    listValid: () => Promise<readonly AttachmentName[]>,
  ): Promise<boolean> {
    await Promise.resolve();
    if (config.disableGC === true || config.cniVersion !== NEWEST) return false;
    const valid = new Set((await listValid()).map(toKey));
    this.#calls.push(`GC ${[config.name, ...valid].join(" ")}`);
    const failure = this.#takeFailure("gc");
    if (failure !== undefined) throw failure.error;
    for (const [key, request] of this.#attached) {
      if (request.config.name !== config.name || valid.has(key)) continue;
      this.#attached.delete(key);
      this.#effects.detached?.(request);
    }
    return true;
  }

  async releaseAddresses(request: AttachmentRequest): Promise<void> {
    await Promise.resolve();
    this.#calls.push(`RELEASE ${toKey(request)}`);
    const failure = this.#takeFailure("release");
    if (failure !== undefined) throw failure.error;
    this.#attached.delete(toKey(request));
  }

  #takeFailure(command: Command): Failure | undefined {
    const failure = this.#failures.get(command);
    this.#failures.delete(command);
    return failure;
  }
}

function toKey(request: AttachmentName): string {
  return `${request.containerId}/${request.interfaceName}`;
}

function buildResult(request: AttachmentRequest): CniResult {
  const { interfaceName: name, netnsPath: sandbox = "", config } = request;
  const requestedMac = request.args.find(([key]) => key === "MAC")?.[1];
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.charCodeAt(0)) % 65536;
  const tail = sum
    .toString(16)
    .padStart(4, "0")
    .replace(/^(..)(..)$/, "$1:$2");
  const mac = requestedMac ?? `02:fa:ce:00:${tail}`;
  return { cniVersion: config.cniVersion, interfaces: [{ name, mac, sandbox }] };
}
