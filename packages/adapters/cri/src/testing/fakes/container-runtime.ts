// SPDX-License-Identifier: Apache-2.0
import { AppError, type Clock } from "@patchbay/base";
import type {
  AttachRequest,
  ContainerConfig,
  ContainerImage,
  ContainerRuntime,
  ContainerStatus,
  ContainerSummary,
  ContainerWrites,
  ExecRequest,
  ExecResult,
  RegistryCredentials,
  RuntimeFilter,
  SandboxConfig,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/interfaces";
import { createFakeClock } from "@patchbay/os/testing";
import {
  limitOutput,
  listContainerRecords,
  listContainerWrites,
  listSandboxRecords,
  listNames,
  newContainer,
  newSandbox,
  refusal,
  type ContainerRecord,
  type ProgramEnd,
  type SandboxRecord,
} from "./container-runtime/records.ts";
import { FakeRegistry } from "./container-runtime/registry.ts";

/** Calls of {@link ContainerRuntime} that can be made to fail. */
export type FakeRuntimeCall = Exclude<keyof ContainerRuntime, "watch" | "close">;

/** {@link ContainerRuntime} in memory. Tests control its programs, images and crashes. */
export interface FakeContainerRuntime extends ContainerRuntime {
  /** All calls with effects, in order, for example `startContainer container-1`. */
  readonly calls: readonly string[];
  /** Result of `problem`. */
  notReady: string | undefined;
  /** Result of `execSync`; undefined for a program that does not end. By default, all exit with 0. */
  onExec: (container: ContainerStatus, command: readonly string[]) => ExecResult | undefined;
  /** Whether the container's program ignores the request to end. By default, all exit with 143. */
  ignoresStop: (container: ContainerStatus) => boolean;
  /** Called after each start; may end the program at once. */
  onStart: (container: ContainerStatus, config: ContainerConfig) => void;
  putImage(image: ContainerImage): void;
  /** Adds an image to the registry, optionally only for clients with the password. Other pulls fail. */
  putRemoteImage(image: ContainerImage, password?: string): void;
  endContainer(id: string, end: ProgramEnd): void;
  /** Crashes the shim of a sandbox: its containers exit with 255, and it is NOTREADY. */
  killSandbox(id: string): void;
  /** Reboots the host, as if all shims had crashed. */
  reboot(): void;
  /** Stops the runtime: calls fail with CRI_UNAVAILABLE. Containers keep running. */
  stop(): void;
  /** Restarts the runtime and notifies watchers. */
  start(): void;
  /** Makes the next such call throw; with `half`, after it had its effect. */
  failNext(call: FakeRuntimeCall, error: unknown, half?: "half"): void;
  /** Sets the size of the container's writable layer. */
  setWritten(id: string, bytes: number): void;
  /** Returns undefined when the sandbox does not exist. */
  findSandboxConfig(id: string): SandboxConfig | undefined;
  findContainerConfig(id: string): ContainerConfig | undefined;
}

interface Failure {
  readonly call: FakeRuntimeCall;
  readonly error: unknown;
  readonly half: boolean;
}

class MemoryRuntime implements FakeContainerRuntime {
  readonly calls: string[] = [];
  notReady: string | undefined;
  onExec: FakeContainerRuntime["onExec"] = () => ({ exitCode: 0, stdout: "", stderr: "" });
  ignoresStop: FakeContainerRuntime["ignoresStop"] = () => false;
  onStart: FakeContainerRuntime["onStart"] = () => undefined;
  readonly #clock: Clock;
  readonly #sandboxes = new Map<string, SandboxRecord>();
  readonly #containers = new Map<string, ContainerRecord>();
  readonly #images = new Map<string, ContainerImage>();
  readonly #registry = new FakeRegistry();
  readonly #watchers = new Set<(id: string | undefined) => void>();
  readonly #failures: Failure[] = [];
  #createdCount = 0;
  #isDown = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  version(): Promise<{ readonly name: string; readonly version: string }> {
    return this.#answer("version", () => ({ name: "fake", version: "1" }));
  }

  findProblem(): Promise<string | undefined> {
    return this.#answer("findProblem", () => this.notReady);
  }

  runSandbox(config: SandboxConfig): Promise<string> {
    const { namespace, name, uid, attempt } = config.metadata;
    return this.#act("runSandbox", `${namespace}/${name}`, () => {
      const existing = [...this.#sandboxes.values()].find(
        ({ config: { metadata } }) => metadata.uid === uid && metadata.attempt === attempt,
      );
      if (existing !== undefined) throw refusal("RunPodSandbox", "UNKNOWN", "the name is reserved");
      this.#createdCount += 1;
      const record = newSandbox(config, this.#createdCount, this.#clock.now());
      this.#sandboxes.set(record.status.id, record);
      this.#notify(record.status.id);
      return record.status.id;
    });
  }

  stopSandbox(id: string): Promise<void> {
    return this.#act("stopSandbox", id, () => {
      this.#endSandbox(id, 137);
    });
  }

  removeSandbox(id: string): Promise<void> {
    return this.#act("removeSandbox", id, () => {
      this.#endSandbox(id, 137);
      for (const { sandboxId, status } of this.#containers.values()) {
        if (sandboxId === id) this.#forget(this.#containers, status.id);
      }
      this.#forget(this.#sandboxes, id);
    });
  }

  listSandboxes(filter: RuntimeFilter = {}): Promise<readonly SandboxSummary[]> {
    return this.#answer("listSandboxes", () =>
      listSandboxRecords(this.#sandboxes.values(), filter),
    );
  }

  findSandbox(id: string): Promise<SandboxStatus | undefined> {
    return this.#answer("findSandbox", () => this.#sandboxes.get(id)?.status);
  }

  createContainer(sandboxId: string, config: ContainerConfig): Promise<string> {
    const { name, attempt } = config.metadata;
    return this.#act("createContainer", `${sandboxId} ${name} ${String(attempt)}`, () => {
      const box = this.#sandboxes.get(sandboxId);
      if (box?.status.state !== "READY") {
        throw refusal("CreateContainer", "NOT_FOUND", `no sandbox ${sandboxId} runs`);
      }
      const image = this.#images.get(config.image);
      if (image === undefined) throw refusal("CreateContainer", "NOT_FOUND", "no such image");
      const isNameInUse = [...this.#containers.values()].some(
        ({ sandboxId: owner, status }) =>
          owner === sandboxId && status.name === name && status.attempt === attempt,
      );
      if (isNameInUse) throw refusal("CreateContainer", "UNKNOWN", "the name is reserved");
      this.#createdCount += 1;
      const creation = { index: this.#createdCount, nowMs: this.#clock.now(), imageRef: image.id };
      const record = newContainer(box, config, creation);
      this.#containers.set(record.status.id, record);
      return record.status.id;
    });
  }

  startContainer(id: string): Promise<void> {
    return this.#act("startContainer", id, () => {
      const record = this.#container("StartContainer", id);
      if (record.status.state !== "CREATED") {
        throw refusal("StartContainer", "UNKNOWN", `container ${id} has been started before`);
      }
      this.#update(record, { state: "RUNNING", startedAt: this.#nowNs() });
      this.onStart(record.status, record.config);
    });
  }

  async stopContainer(id: string, graceSeconds: number): Promise<void> {
    await this.#act("stopContainer", `${id} ${String(graceSeconds)}`, async () => {
      const record = this.#containers.get(id);
      if (record?.status.state !== "RUNNING") return;
      const ignores = this.ignoresStop(record.status);
      if (ignores) await this.#clock.sleep(graceSeconds * 1000, new AbortController().signal);
      this.#end(record, { exitCode: ignores ? 137 : 143 });
    });
  }

  removeContainer(id: string): Promise<void> {
    return this.#act("removeContainer", id, () => {
      this.#forget(this.#containers, id);
    });
  }

  listContainers(filter: RuntimeFilter = {}): Promise<readonly ContainerSummary[]> {
    return this.#answer("listContainers", () =>
      listContainerRecords(this.#containers.values(), filter),
    );
  }

  findContainer(id: string): Promise<ContainerStatus | undefined> {
    return this.#answer("findContainer", () => this.#containers.get(id)?.status);
  }

  listWrites(): Promise<readonly ContainerWrites[]> {
    return this.#answer("listWrites", () => listContainerWrites(this.#containers.values()));
  }

  setWritten(id: string, bytes: number): void {
    const record = this.#containers.get(id);
    if (record !== undefined) record.writtenBytes = bytes;
  }

  execSync(id: string, command: readonly string[], timeoutSeconds: number): Promise<ExecResult> {
    return this.#act("execSync", `${id} ${command.join(" ")}`, async () => {
      const result = this.onExec(this.#running("ExecSync", id).status, command);
      if (result !== undefined) return limitOutput(result);
      await this.#clock.sleep(timeoutSeconds * 1000, new AbortController().signal);
      throw new AppError("CRI_TIMED_OUT", { call: "ExecSync", timeoutMs: timeoutSeconds * 1000 });
    });
  }

  exec(request: ExecRequest): Promise<string> {
    return this.#act("exec", `${request.containerId} ${request.command.join(" ")}`, () => {
      this.#running("Exec", request.containerId);
      return `http://127.0.0.1:1/exec/${request.containerId}`;
    });
  }

  attach({ containerId }: AttachRequest): Promise<string> {
    return this.#act("attach", containerId, () => {
      this.#running("Attach", containerId);
      return `http://127.0.0.1:1/attach/${containerId}`;
    });
  }

  reopenLog(id: string): Promise<void> {
    return this.#act("reopenLog", id, () => {
      this.#running("ReopenContainerLog", id);
    });
  }

  findImage(reference: string): Promise<ContainerImage | undefined> {
    return this.#answer("findImage", () => this.#images.get(reference));
  }

  pullImage(reference: string, credentials?: RegistryCredentials): Promise<string> {
    return this.#act("pullImage", reference, () => {
      const image = this.#registry.pull(reference, credentials);
      this.putImage(image);
      return image.id;
    });
  }

  listImages(): Promise<readonly ContainerImage[]> {
    return this.#answer("listImages", () => [...new Set(this.#images.values())]);
  }

  removeImage(id: string): Promise<void> {
    return this.#act("removeImage", id, () => {
      for (const [name, image] of this.#images) if (image.id === id) this.#images.delete(name);
    });
  }

  watch(onChange: (id: string | undefined) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#watchers.add(onChange);
    if (!this.#isDown) this.#notifyOne(onChange, undefined);
    signal.addEventListener("abort", () => this.#watchers.delete(onChange), { once: true });
  }

  close(): void {
    this.#watchers.clear();
  }

  putImage(image: ContainerImage): void {
    for (const name of listNames(image)) this.#images.set(name, image);
  }

  putRemoteImage(image: ContainerImage, password?: string): void {
    this.#registry.put(image, password);
  }

  endContainer(id: string, end: ProgramEnd): void {
    this.#end(this.#running("endContainer", id), end);
  }

  killSandbox(id: string): void {
    this.#endSandbox(id, 255);
  }

  reboot(): void {
    for (const id of this.#sandboxes.keys()) this.#endSandbox(id, 255);
  }

  stop(): void {
    this.#isDown = true;
  }

  start(): void {
    this.#isDown = false;
    this.#notify(undefined);
  }

  failNext(call: FakeRuntimeCall, error: unknown, half?: "half"): void {
    this.#failures.push({ call, error, half: half === "half" });
  }

  findSandboxConfig(id: string): SandboxConfig | undefined {
    return this.#sandboxes.get(id)?.config;
  }

  findContainerConfig(id: string): ContainerConfig | undefined {
    return this.#containers.get(id)?.config;
  }

  #nowNs(): bigint {
    return BigInt(this.#clock.now()) * 1_000_000n;
  }

  #notify(id: string | undefined): void {
    if (this.#isDown) return;
    for (const onChange of this.#watchers) this.#notifyOne(onChange, id);
  }

  #notifyOne(onChange: (id: string | undefined) => void, id: string | undefined): void {
    queueMicrotask(() => {
      if (this.#watchers.has(onChange)) onChange(id);
    });
  }

  #container(call: string, id: string): ContainerRecord {
    const record = this.#containers.get(id);
    if (record === undefined) throw refusal(call, "NOT_FOUND", `no container ${id}`);
    return record;
  }

  #running(call: string, id: string): ContainerRecord {
    const record = this.#container(call, id);
    if (record.status.state === "RUNNING") return record;
    throw refusal(call, "UNKNOWN", `container ${id} does not run`);
  }

  #update(record: ContainerRecord, change: Partial<ContainerStatus>): void {
    record.status = { ...record.status, ...change };
    this.#notify(record.status.id);
  }

  #end(record: ContainerRecord, { exitCode, reason }: ProgramEnd): void {
    const finishedAt = this.#nowNs();
    const why = reason ?? (exitCode === 0 ? "Completed" : "Error");
    this.#update(record, { state: "EXITED", finishedAt, exitCode, reason: why });
  }

  #endSandbox(id: string, exitCode: number): void {
    const box = this.#sandboxes.get(id);
    if (box === undefined) return;
    for (const record of this.#containers.values()) {
      if (record.sandboxId === id && record.status.state === "RUNNING") {
        this.#end(record, { exitCode });
      }
    }
    const { pid, ...status } = box.status;
    box.status = { ...status, state: "NOTREADY" };
    if (pid !== undefined) this.#notify(id);
  }

  #forget(records: Map<string, unknown>, id: string): void {
    if (records.delete(id)) this.#notify(id);
  }

  async #answer<T>(call: FakeRuntimeCall, produce: () => T | Promise<T>): Promise<T> {
    await Promise.resolve();
    if (this.#isDown) {
      throw new AppError("CRI_UNAVAILABLE", { endpoint: "fake", reason: "it was stopped" });
    }
    const index = this.#failures.findIndex((failure) => failure.call === call);
    const [failure] = index === -1 ? [] : this.#failures.splice(index, 1);
    if (failure?.half === false) throw failure.error;
    const answer = await produce();
    if (failure !== undefined) throw failure.error;
    return answer;
  }

  #act<T>(call: FakeRuntimeCall, what: string, act: () => T | Promise<T>): Promise<T> {
    return this.#answer(call, () => {
      this.calls.push(`${call} ${what}`);
      return act();
    });
  }
}

/** Creates a runtime without sandboxes, containers or images. `clock` provides times and delays. */
export function createFakeContainerRuntime(clock: Clock = createFakeClock()): FakeContainerRuntime {
  return new MemoryRuntime(clock);
}
