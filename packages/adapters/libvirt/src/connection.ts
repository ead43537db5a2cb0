// SPDX-License-Identifier: Apache-2.0
// One libvirt connection from the parent's side: calls are serialized, have deadlines, and fail when the connection
// is lost.
import { AppError, isAppError, type Clock } from "@patchbay/base";
import type {
  AttachTarget,
  ConnectionEnd,
  DeviceTarget,
  DomainInfo,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  GuestTopic,
  HypervisorConnection,
  HypervisorEvent,
  JobStats,
  Migration,
} from "@patchbay/core/interfaces";
import { MIGRATE, toAppError, type FailedCall } from "./errors.ts";
import {
  readGuestRoutes,
  parseGuestAgent,
  parseGuestFacts,
  parseGuestFreeze,
  parseGuestInterfaces,
  parseGuestSystem,
} from "./guest-agent.ts";
import { migrationArguments, parseJob } from "./migration.ts";
import { OPEN_CALL, parseDomain, type NativeError, type Reply, type Request } from "./protocol.ts";

export interface ConnectionLink {
  readonly id: number;
  readonly clock: Clock;
  /** Deadline of each call, milliseconds. */
  readonly callTimeoutMs: number;
  send(request: Request): void;
  /** Called once when the connection is lost or closed; the child's half may still be busy. */
  onLost(): void;
}

type Answer =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "error"; readonly error: NativeError }
  | { readonly kind: "lost" }
  | { readonly kind: "late" };

/** Has no deadline. */
const CALL_WITHOUT_DEADLINE = "migrateDomain";

/** Sends nothing over a lost connection. */
export class LibvirtConnection implements HypervisorConnection {
  readonly closed: Promise<ConnectionEnd>;
  readonly #link: ConnectionLink;
  readonly #resolveClosed: (end: ConnectionEnd) => void;
  readonly #listeners = new Set<(event: HypervisorEvent) => void>();
  readonly #answers = new Map<number, (answer: Answer) => void>();
  #lastCall = OPEN_CALL;
  #tail: Promise<unknown> = Promise.resolve();
  #lostReason: string | undefined;

  constructor(link: ConnectionLink) {
    this.#link = link;
    const { promise, resolve } = Promise.withResolvers<ConnectionEnd>();
    this.closed = promise;
    this.#resolveClosed = resolve;
  }

  async open(request: Request, timeoutMs: number): Promise<void> {
    const answer = await this.#request(OPEN_CALL, request, timeoutMs);
    if (answer.kind === "value") return;
    this.lose("it was never opened");
    if (answer.kind === "late") throw timedOut("virConnectOpen", timeoutMs);
    const message = answer.kind === "error" ? answer.error.message : "the connection was lost";
    throw new AppError("LIBVIRT_UNREACHABLE", { message });
  }

  accept(reply: Reply): void {
    switch (reply.kind) {
      case "result":
        this.#answers.get(reply.call)?.({ kind: "value", value: reply.value });
        return;
      case "failed":
        this.#answers.get(reply.call)?.({ kind: "error", error: reply.error });
        return;
      case "event":
        if (this.#lostReason !== undefined) return;
        for (const listener of this.#listeners) listener(reply.event);
        return;
      case "lost":
        this.lose(reply.reason);
        return;
      case "ended":
        this.lose("it has ended");
    }
  }

  /** Abandons the connection: running and queued calls fail. Idempotent. */
  lose(reason: string, by: ConnectionEnd["by"] = "daemon"): void {
    if (this.#lostReason !== undefined) return;
    this.#lostReason = reason;
    for (const answer of this.#answers.values()) answer({ kind: "lost" });
    this.#listeners.clear();
    this.#link.send({ kind: "close", connection: this.#link.id });
    this.#resolveClosed({ reason, by });
    this.#link.onLost();
  }

  async findDomain(name: string): Promise<DomainInfo | undefined> {
    const value = await this.#run("findDomain", [name], { call: "virDomainLookupByName" });
    return parseDomain(value);
  }

  async readDomainXml(name: string, part: DeviceTarget | "moving"): Promise<string> {
    const call = { call: "virDomainGetXMLDesc", domain: name };
    const xml = await this.#run("readDomainXml", [name, part], call);
    return typeof xml === "string" ? xml : "";
  }

  async defineDomain(xml: string): Promise<void> {
    await this.#run("defineDomain", [xml], { call: "virDomainDefineXMLFlags" });
  }

  async startDomain(name: string, how: "running" | "paused" = "running"): Promise<void> {
    const call = { call: "virDomainCreateWithFlags", domain: name };
    await this.#run("startDomain", [name, how], call);
  }

  async shutdownDomain(name: string): Promise<void> {
    await this.#run("shutdownDomain", [name], { call: "virDomainShutdown", domain: name });
  }

  async destroyDomain(name: string): Promise<void> {
    await this.#run("destroyDomain", [name], { call: "virDomainDestroy", domain: name });
  }

  async suspendDomain(name: string): Promise<void> {
    await this.#run("suspendDomain", [name], { call: "virDomainSuspend", domain: name });
  }

  async resumeDomain(name: string): Promise<void> {
    await this.#run("resumeDomain", [name], { call: "virDomainResume", domain: name });
  }

  async rebootDomain(name: string): Promise<void> {
    await this.#run("rebootDomain", [name], { call: "virDomainReboot", domain: name });
  }

  async resetDomain(name: string): Promise<void> {
    await this.#run("resetDomain", [name], { call: "virDomainReset", domain: name });
  }

  async attachDevice(name: string, xml: string, target: AttachTarget): Promise<void> {
    const call = { call: "virDomainAttachDeviceFlags", domain: name, ...findAlias(xml) };
    await this.#run("attachDevice", [name, xml, target], call);
  }

  async detachDevice(name: string, alias: string, target: DeviceTarget): Promise<void> {
    const call = { call: "virDomainDetachDeviceAlias", domain: name, device: alias };
    await this.#run("detachDevice", [name, alias, target], call);
  }

  async updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void> {
    const call = { call: "virDomainUpdateDeviceFlags", domain: name, ...findAlias(xml) };
    await this.#run("updateDevice", [name, xml, target], call);
  }

  async readGuestInterfaces(name: string): Promise<readonly GuestInterface[]> {
    const call = { call: "virDomainInterfaceAddresses", domain: name };
    return parseGuestInterfaces(await this.#run("readGuestInterfaces", [name], call));
  }

  async readGuestSystem(name: string): Promise<GuestSystem> {
    const call = { call: "virDomainGetGuestInfo", domain: name };
    return parseGuestSystem(await this.#run("readGuestInfo", [name, "system"], call));
  }

  async readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts> {
    const failedCall = { call: "virDomainQemuAgentCommand", domain: name };
    if (topic === "routes") {
      return readGuestRoutes((question, file) =>
        file === undefined
          ? this.#run("askGuestAgent", [name, question], failedCall)
          : this.#run("askAboutGuestFile", [name, question, file], failedCall),
      );
    }
    if (topic === "agent" || topic === "freeze") {
      const parse = topic === "agent" ? parseGuestAgent : parseGuestFreeze;
      return parse(await this.#run("askGuestAgent", [name, topic], failedCall));
    }
    const call = { call: "virDomainGetGuestInfo", domain: name };
    return parseGuestFacts(await this.#run("readGuestInfo", [name, topic], call));
  }

  async migrateDomain(name: string, migration: Migration): Promise<void> {
    const call = { call: MIGRATE, domain: name };
    await this.#run("migrateDomain", migrationArguments(name, migration), call);
  }

  async readJob(name: string): Promise<JobStats> {
    const call = { call: "virDomainGetJobStats", domain: name };
    return parseJob(await this.#run("readJob", [name], call));
  }

  async abortJob(name: string): Promise<void> {
    await this.#run("abortJob", [name], { call: "virDomainAbortJob", domain: name });
  }

  async setMaxDowntime(name: string, downtimeMs: number): Promise<void> {
    const call = { call: "virDomainMigrateSetMaxDowntime", domain: name };
    await this.#run("setMaxDowntime", [name, String(downtimeMs)], call);
  }

  async setMaxSpeed(name: string, mibPerSecond: number): Promise<void> {
    const call = { call: "virDomainMigrateSetMaxSpeed", domain: name };
    await this.#run("setMaxSpeed", [name, String(mibPerSecond)], call);
  }

  onEvent(listener: (event: HypervisorEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  close(): Promise<void> {
    this.lose("closed", "us");
    return Promise.resolve();
  }

  /** Serializes calls; a failed one does not stop the next. */
  #run(operation: string, args: readonly string[], failed: FailedCall): Promise<unknown> {
    const result = this.#tail.then(() => this.#call(operation, args, failed));
    this.#tail = result.catch(() => undefined);
    return result;
  }

  async #call(operation: string, args: readonly string[], failed: FailedCall): Promise<unknown> {
    this.#lastCall += 1;
    const { id: connection, callTimeoutMs } = this.#link;
    const call = this.#lastCall;
    const request = { kind: "call", connection, call, operation, arguments: args } as const;
    const timeoutMs = operation === CALL_WITHOUT_DEADLINE ? undefined : callTimeoutMs;
    const answer = await this.#request(call, request, timeoutMs);
    switch (answer.kind) {
      case "value":
        return answer.value;
      case "late":
        this.lose(`no answer to ${failed.call}`);
        throw timedOut(failed.call, callTimeoutMs);
      case "lost":
        throw this.#lostError();
      case "error": {
        const error = toAppError(answer.error, failed);
        if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) this.lose(answer.error.message);
        throw error;
      }
    }
  }

  async #request(call: number, request: Request, timeoutMs: number | undefined): Promise<Answer> {
    if (this.#lostReason !== undefined) return { kind: "lost" };
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const deadline = new AbortController();
    this.#answers.set(call, resolve);
    if (timeoutMs !== undefined) {
      this.#link.clock.sleep(timeoutMs, deadline.signal).then(
        () => {
          resolve({ kind: "late" });
        },
        () => undefined,
      );
    }
    try {
      this.#link.send(request);
      return await promise;
    } finally {
      this.#answers.delete(call);
      deadline.abort(new Error("answered"));
    }
  }

  #lostError(): AppError {
    return new AppError("LIBVIRT_CONNECTION_LOST", { message: this.#lostReason ?? "unknown" });
  }
}

/** The alias in a device's XML, for errors. */
function findAlias(xml: string): Pick<FailedCall, "device"> {
  const device = /<alias\s+name=["']([^"']*)["']/.exec(xml)?.[1];
  return device === undefined ? {} : { device };
}

function timedOut(call: string, timeoutMs: number): AppError {
  return new AppError("LIBVIRT_TIMED_OUT", { call, timeoutMs });
}
