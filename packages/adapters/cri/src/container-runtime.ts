// SPDX-License-Identifier: Apache-2.0
// A container runtime over CRI v1: each call of the port is one call on the wire.
import { AppError, isAppError } from "@patchbay/core/errors";
import type {
  Clock,
  ContainerConfig,
  ContainerImage,
  ContainerRuntime,
  AttachRequest,
  ExecRequest,
  ExecResult,
  RegistryCredentials,
  RuntimeFilter,
  SandboxConfig,
} from "@patchbay/core/ports";
import { findEndpoint, type FoundEndpoint } from "./endpoints.ts";
import { watchEvents } from "./events.ts";
import type { Endpoint } from "./grpc.ts";
import {
  toContainerStatus,
  toContainerSummary,
  toContainerWrites,
  toImage,
  toProblem,
  toSandboxStatus,
  toSandboxSummary,
} from "./wire/from-wire.ts";
import type {
  WireCondition,
  WireContainer,
  WireContainerStats,
  WireContainerStatus,
  WireImage,
  WireSandbox,
  WireSandboxStatusResponse,
} from "./wire/messages.ts";
import {
  fromContainerConfig,
  fromContainerFilter,
  fromSandboxConfig,
  fromSandboxFilter,
} from "./wire/to-wire.ts";

/** Of calls that only read, milliseconds. */
const READ_MS = 20_000;
/** Of calls that change something. Source: kubelet, runtimeRequestTimeout. */
const CHANGE_MS = 120_000;
/** Of making a sandbox, with its network: twice that, as a kubelet allows. */
const SANDBOX_MS = 240_000;
/** Of fetching an image. containerd itself gives up when a minute brings nothing. */
const PULL_MS = 1_800_000;
/** How much later than the runtime's own deadline we give up, milliseconds. */
const LATE_MS = 5000;
/** CRI-O's exit code of a program whose deadline has passed. Source: CRI-O oci, ExecSyncContainer. */
const EXEC_TIMED_OUT = -1;

/** What {@link createContainerRuntime} needs. */
export interface CriOptions {
  /** `unix:///…`; the first that speaks CRI v1 is taken, and kept. */
  readonly endpoints: readonly string[];
  readonly clock: Clock;
}

/** A runtime at one of these endpoints. It connects at the first call; `close` ends the connection. */
export function createContainerRuntime({ endpoints, clock }: CriOptions): ContainerRuntime {
  return new CriRuntime(findEndpoint(endpoints, clock), clock);
}

const RUNTIME = "runtime.v1.RuntimeService";
const IMAGES = "runtime.v1.ImageService";

class CriRuntime implements ContainerRuntime {
  readonly #found: FoundEndpoint;
  readonly #clock: Clock;

  constructor(found: FoundEndpoint, clock: Clock) {
    this.#found = found;
    this.#clock = clock;
  }

  async version(): ReturnType<ContainerRuntime["version"]> {
    type Answer = { readonly runtimeName: string; readonly runtimeVersion: string };
    const answer = await this.#runtime<Answer>("Version", {});
    return { name: answer.runtimeName, version: answer.runtimeVersion };
  }

  async problem(): Promise<string | undefined> {
    type Answer = { readonly status: { readonly conditions: readonly WireCondition[] } | null };
    const { status } = await this.#runtime<Answer>("Status", {});
    return toProblem(status?.conditions ?? []);
  }

  async runSandbox(config: SandboxConfig): Promise<string> {
    const request = { config: fromSandboxConfig(config) };
    type Answer = { readonly podSandboxId: string };
    return (await this.#runtime<Answer>("RunPodSandbox", request, SANDBOX_MS)).podSandboxId;
  }

  async stopSandbox(id: string): Promise<void> {
    await this.#end("StopPodSandbox", { podSandboxId: id });
  }

  async removeSandbox(id: string): Promise<void> {
    await this.#end("RemovePodSandbox", { podSandboxId: id });
  }

  async listSandboxes(filter: RuntimeFilter = {}): ReturnType<ContainerRuntime["listSandboxes"]> {
    type Answer = { readonly items: readonly WireSandbox[] };
    const { items } = await this.#runtime<Answer>("ListPodSandbox", fromSandboxFilter(filter));
    return items.map(toSandboxSummary);
  }

  async findSandbox(id: string): ReturnType<ContainerRuntime["findSandbox"]> {
    const request = { podSandboxId: id, verbose: true };
    const answer = await unlessGone(
      this.#runtime<WireSandboxStatusResponse>("PodSandboxStatus", request),
    );
    return answer === undefined ? undefined : toSandboxStatus(answer);
  }

  async createContainer(
    sandboxId: string,
    config: ContainerConfig,
    sandbox: SandboxConfig,
  ): Promise<string> {
    const request = {
      podSandboxId: sandboxId,
      config: fromContainerConfig(config),
      sandboxConfig: fromSandboxConfig(sandbox),
    };
    type Answer = { readonly containerId: string };
    return (await this.#runtime<Answer>("CreateContainer", request, CHANGE_MS)).containerId;
  }

  async startContainer(id: string): Promise<void> {
    await this.#runtime("StartContainer", { containerId: id }, CHANGE_MS);
  }

  async stopContainer(id: string, graceSeconds: number): Promise<void> {
    const request = { containerId: id, timeout: graceSeconds };
    await this.#end("StopContainer", request, CHANGE_MS + graceSeconds * 1000);
  }

  async removeContainer(id: string): Promise<void> {
    await this.#end("RemoveContainer", { containerId: id });
  }

  async listContainers(filter: RuntimeFilter = {}): ReturnType<ContainerRuntime["listContainers"]> {
    type Answer = { readonly containers: readonly WireContainer[] };
    const request = fromContainerFilter(filter);
    const { containers } = await this.#runtime<Answer>("ListContainers", request);
    return containers.map(toContainerSummary);
  }

  async findContainer(id: string): ReturnType<ContainerRuntime["findContainer"]> {
    type Answer = { readonly status: WireContainerStatus | null };
    const answer = await unlessGone(this.#runtime<Answer>("ContainerStatus", { containerId: id }));
    const status = answer?.status ?? undefined;
    return status === undefined ? undefined : toContainerStatus(status);
  }

  async listWrites(): ReturnType<ContainerRuntime["listWrites"]> {
    type Answer = { readonly stats: readonly WireContainerStats[] };
    const { stats } = await this.#runtime<Answer>("ListContainerStats", {});
    return stats.map(toContainerWrites);
  }

  async execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
  ): Promise<ExecResult> {
    type Answer = { readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number };
    const request = { containerId: id, cmd: command, timeout: timeoutSeconds };
    const timeoutMs = timeoutSeconds * 1000;
    const timedOut = (cause?: unknown): AppError =>
      new AppError("CRI_TIMED_OUT", { call: "ExecSync", timeoutMs }, { cause });
    try {
      const call = { service: RUNTIME, method: "ExecSync", request, isTenants: true } as const;
      const endpoint = await this.#found.get();
      const said = await endpoint.call<Answer>(call, timeoutMs + LATE_MS);
      if (said.exitCode === EXEC_TIMED_OUT) throw timedOut();
      const [stdout, stderr] = [said.stdout.toString("utf8"), said.stderr.toString("utf8")];
      return { exitCode: said.exitCode, stdout, stderr };
    } catch (error) {
      throw isAppError(error, "CRI_TIMED_OUT") ? timedOut(error) : error;
    }
  }

  async exec({ containerId, command, ...streams }: ExecRequest): Promise<string> {
    const request = { containerId, cmd: command, ...streams };
    return (await this.#runtime<{ readonly url: string }>("Exec", request)).url;
  }

  async attach(request: AttachRequest): Promise<string> {
    return (await this.#runtime<{ readonly url: string }>("Attach", request)).url;
  }

  async reopenLog(id: string): Promise<void> {
    await this.#runtime("ReopenContainerLog", { containerId: id });
  }

  async findImage(reference: string): Promise<ContainerImage | undefined> {
    type Answer = { readonly image: WireImage | null };
    const { image } = await this.#images<Answer>("ImageStatus", { image: { image: reference } });
    return image === null ? undefined : toImage(image);
  }

  async pullImage(
    reference: string,
    credentials?: RegistryCredentials,
    signal?: AbortSignal,
  ): Promise<string> {
    const request = {
      image: { image: reference },
      ...(credentials !== undefined && { auth: credentials }),
    };
    type Answer = { readonly imageRef: string };
    const method = "PullImage";
    const call = { service: IMAGES, method, request, ...(signal && { signal }) } as const;
    const endpoint = await this.#found.get();
    return (await endpoint.call<Answer>(call, PULL_MS)).imageRef;
  }

  async listImages(): Promise<readonly ContainerImage[]> {
    type Answer = { readonly images: readonly WireImage[] };
    return (await this.#images<Answer>("ListImages", {})).images.map(toImage);
  }

  async removeImage(id: string): Promise<void> {
    await unlessGone(this.#images("RemoveImage", { image: { image: id } }, CHANGE_MS));
  }

  watch(changed: (id: string | undefined) => void, signal: AbortSignal): void {
    const endpoint = (): Promise<Endpoint> => this.#found.get();
    watchEvents({ clock: this.#clock, endpoint }, changed, signal);
  }

  close(): void {
    this.#found.close();
  }

  async #end(method: string, request: object, timeoutMs = CHANGE_MS): Promise<void> {
    await unlessGone(this.#runtime(method, request, timeoutMs));
  }

  async #runtime<Answer>(method: string, request: object, timeoutMs = READ_MS): Promise<Answer> {
    const endpoint = await this.#found.get();
    return endpoint.call<Answer>({ service: RUNTIME, method, request }, timeoutMs);
  }

  async #images<Answer>(method: string, request: object, timeoutMs = READ_MS): Promise<Answer> {
    const endpoint = await this.#found.get();
    return endpoint.call<Answer>({ service: IMAGES, method, request }, timeoutMs);
  }
}

/** What was answered; undefined where the runtime knows nothing of what it was asked about. */
async function unlessGone<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isAppError(error, "CRI_FAILED") && error.details["status"] === "NOT_FOUND")
      return undefined;
    throw error;
  }
}
