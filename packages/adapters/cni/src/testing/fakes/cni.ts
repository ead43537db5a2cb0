// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  AttachmentName,
  AttachmentRequest,
  Cni,
  CniResult,
  NetworkConfigList,
} from "@patchbay/core/interfaces";

/** Callbacks for effects of attachments, for example on a fake kernel. */
export interface FakeCniEffects {
  attached?(request: AttachmentRequest, result: CniResult): void;
  detached?(request: AttachmentRequest): void;
}

/** A {@link Cni} in memory, with attachments by sandbox and interface name. */
export interface FakeCni extends Cni {
  /** Attachments as `containerId/interfaceName`, in the order of their creation. */
  readonly attachments: readonly string[];
  /** All calls in order, for example `ADD containerId/interfaceName`, `STATUS network` or `GC network VALID...`. */
  readonly calls: readonly string[];
  /** Makes the next call of this command fail. With `half`, ADD still creates the attachment. */
  failNext(command: Command, error: unknown, half?: "half"): void;
  /** Cancels pending failures. */
  heal(): void;
  /** Makes plugins ignore requested MACs, like ptp and host-device. */
  ignoreMacs(): void;
}

const VERSIONS_WITHOUT_CHECK: readonly string[] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1"];
const NEWEST = "1.1.0";

type Command = "add" | "del" | "check" | "status" | "gc" | "release";

interface Failure {
  readonly error: unknown;
  readonly isHalf: boolean;
}

/** Creates a fake whose calls succeed. MACs come from `MAC` in CNI_ARGS, otherwise from the NIC's name. The key `gateway` of the first plugin adds an address with that gateway. */
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
    if (config.disableCheck === true || VERSIONS_WITHOUT_CHECK.includes(prevResult.cniVersion))
      return false;
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
  const gateway = config.plugins[0]?.["gateway"];
  return {
    cniVersion: config.cniVersion,
    interfaces: [{ name, mac, sandbox }],
    ...(typeof gateway === "string" && {
      ips: [{ address: `${gateway}/24`, interface: 0, gateway }],
    }),
  };
}
