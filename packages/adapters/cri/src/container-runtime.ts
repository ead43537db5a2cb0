// SPDX-License-Identifier: Apache-2.0
// Client of a container runtime over CRI v1. Each method makes one call, except removals of containers that CRI lost track of.
import { AppError, isAppError, type Clock } from "@patchbay/base";
import type {
  ContainerConfig,
  ContainerImage,
  ContainerRuntime,
  AttachRequest,
  ExecRequest,
  ExecResult,
  RegistryCredentials,
  RuntimeFilter,
  SandboxConfig,
} from "@patchbay/core/interfaces";
import { createEndpointFinder, type CriOptions, type EndpointFinder } from "./endpoints.ts";
import { watchEvents } from "./events.ts";
import type { Call, Endpoint } from "./grpc.ts";
import { endTask } from "./tasks.ts";
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

const READ_TIMEOUT_MS = 20_000;
/** Time limit of calls that change state, in milliseconds. Source: kubelet, runtimeRequestTimeout */
const CHANGE_TIMEOUT_MS = 120_000;
/** Time limit of RunPodSandbox, in milliseconds: twice {@link CHANGE_TIMEOUT_MS}, as in the kubelet. */
const SANDBOX_TIMEOUT_MS = 240_000;
/** Time limit of an image pull, in milliseconds. containerd aborts earlier if it receives no data for a minute. */
const PULL_TIMEOUT_MS = 1_800_000;
/** Milliseconds by which the client's deadline exceeds a deadline that the runtime enforces itself. */
const RUNTIME_DEADLINE_MARGIN_MS = 5000;
/** Exit code that CRI-O returns for a program that timed out. Source: CRI-O oci, ExecSyncContainer */
const EXEC_TIMED_OUT_EXIT_CODE = -1;

export function createContainerRuntime({ endpoints, clock }: CriOptions): ContainerRuntime {
  return new CriRuntime(createEndpointFinder(endpoints, clock), clock);
}

const RUNTIME_SERVICE = "runtime.v1.RuntimeService";
const IMAGE_SERVICE = "runtime.v1.ImageService";

class CriRuntime implements ContainerRuntime {
  readonly #endpoint: EndpointFinder;
  readonly #clock: Clock;

  constructor(finder: EndpointFinder, clock: Clock) {
    this.#endpoint = finder;
    this.#clock = clock;
  }

  async version(): ReturnType<ContainerRuntime["version"]> {
    type Answer = { readonly runtimeName: string; readonly runtimeVersion: string };
    const answer = await this.#runtime<Answer>("Version", {});
    return { name: answer.runtimeName, version: answer.runtimeVersion };
  }

  async findProblem(): Promise<string | undefined> {
    type Answer = { readonly status: { readonly conditions: readonly WireCondition[] } | null };
    const { status } = await this.#runtime<Answer>("Status", {});
    return toProblem(status?.conditions ?? []);
  }

  async runSandbox(config: SandboxConfig): Promise<string> {
    const { runtimeHandler = "" } = config;
    const request = { config: fromSandboxConfig(config), runtimeHandler };
    type Answer = { readonly podSandboxId: string };
    return (await this.#runtime<Answer>("RunPodSandbox", request, SANDBOX_TIMEOUT_MS)).podSandboxId;
  }

  async stopSandbox(id: string): Promise<void> {
    await this.#callIgnoringNotFound("StopPodSandbox", { podSandboxId: id });
  }

  async removeSandbox(id: string): Promise<void> {
    await this.#remove("RemovePodSandbox", { podSandboxId: id }, async () => {
      const containers = await this.listContainers({ sandboxId: id });
      return [...containers.map((container) => container.id), id];
    });
  }

  async listSandboxes(filter: RuntimeFilter = {}): ReturnType<ContainerRuntime["listSandboxes"]> {
    type Answer = { readonly items: readonly WireSandbox[] };
    const { items } = await this.#runtime<Answer>("ListPodSandbox", fromSandboxFilter(filter));
    return items.map(toSandboxSummary);
  }

  async findSandbox(id: string): ReturnType<ContainerRuntime["findSandbox"]> {
    const request = { podSandboxId: id, verbose: true };
    const answer = await ignoreNotFound(
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
    return (await this.#runtime<Answer>("CreateContainer", request, CHANGE_TIMEOUT_MS)).containerId;
  }

  async startContainer(id: string): Promise<void> {
    await this.#runtime("StartContainer", { containerId: id }, CHANGE_TIMEOUT_MS);
  }

  async stopContainer(id: string, graceSeconds: number): Promise<void> {
    const request = { containerId: id, timeout: graceSeconds };
    await this.#callIgnoringNotFound(
      "StopContainer",
      request,
      CHANGE_TIMEOUT_MS + graceSeconds * 1000,
    );
  }

  async removeContainer(id: string): Promise<void> {
    await this.#remove("RemoveContainer", { containerId: id }, () => Promise.resolve([id]));
  }

  async listContainers(filter: RuntimeFilter = {}): ReturnType<ContainerRuntime["listContainers"]> {
    type Answer = { readonly containers: readonly WireContainer[] };
    const request = fromContainerFilter(filter);
    const { containers } = await this.#runtime<Answer>("ListContainers", request);
    return containers.map(toContainerSummary);
  }

  async findContainer(id: string): ReturnType<ContainerRuntime["findContainer"]> {
    type Answer = { readonly status: WireContainerStatus | null };
    const answer = await ignoreNotFound(
      this.#runtime<Answer>("ContainerStatus", { containerId: id }),
    );
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
    const timedOutError = (cause?: unknown): AppError =>
      new AppError("CRI_TIMED_OUT", { call: "ExecSync", timeoutMs }, { cause });
    try {
      const call = {
        service: RUNTIME_SERVICE,
        method: "ExecSync",
        request,
        hasTenantOutput: true,
      } as const;
      const endpoint = await this.#endpoint.get();
      const execAnswer = await endpoint.call<Answer>(call, timeoutMs + RUNTIME_DEADLINE_MARGIN_MS);
      if (execAnswer.exitCode === EXEC_TIMED_OUT_EXIT_CODE) throw timedOutError();
      const [stdout, stderr] = [
        execAnswer.stdout.toString("utf8"),
        execAnswer.stderr.toString("utf8"),
      ];
      return { exitCode: execAnswer.exitCode, stdout, stderr };
    } catch (error) {
      throw isAppError(error, "CRI_TIMED_OUT") ? timedOutError(error) : error;
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
    const call = { service: IMAGE_SERVICE, method, request, ...(signal && { signal }) } as const;
    const endpoint = await this.#endpoint.get();
    return (await endpoint.call<Answer>(call, PULL_TIMEOUT_MS)).imageRef;
  }

  async listImages(): Promise<readonly ContainerImage[]> {
    type Answer = { readonly images: readonly WireImage[] };
    return (await this.#images<Answer>("ListImages", {})).images.map(toImage);
  }

  async removeImage(id: string): Promise<void> {
    await ignoreNotFound(this.#images("RemoveImage", { image: { image: id } }, CHANGE_TIMEOUT_MS));
  }

  watch(onChange: (id: string | undefined) => void, signal: AbortSignal): void {
    const endpoint = (): Promise<Endpoint> => this.#endpoint.get();
    watchEvents({ clock: this.#clock, endpoint }, onChange, signal);
  }

  close(): void {
    this.#endpoint.close();
  }

  /** Ends tasks that block the removal, and removes again. A start that was canceled can leave a task that CRI takes for ended. */
  async #remove(
    method: string,
    request: object,
    listTaskIds: () => Promise<readonly string[]>,
  ): Promise<void> {
    try {
      await this.#callIgnoringNotFound(method, request);
    } catch (error) {
      if (!isTaskRunning(error)) throw error;
      const endpoint = await this.#endpoint.get();
      for (const id of await listTaskIds()) await endTask(endpoint, id);
      await this.#callIgnoringNotFound(method, request);
    }
  }

  async #callIgnoringNotFound(
    method: string,
    request: object,
    timeoutMs = CHANGE_TIMEOUT_MS,
  ): Promise<void> {
    await ignoreNotFound(this.#runtime(method, request, timeoutMs));
  }

  #runtime<Answer>(method: string, request: object, timeoutMs = READ_TIMEOUT_MS): Promise<Answer> {
    return this.#call({ service: RUNTIME_SERVICE, method, request }, timeoutMs);
  }

  #images<Answer>(method: string, request: object, timeoutMs = READ_TIMEOUT_MS): Promise<Answer> {
    return this.#call({ service: IMAGE_SERVICE, method, request }, timeoutMs);
  }

  async #call<Answer>(call: Call, timeoutMs: number): Promise<Answer> {
    const endpoint = await this.#endpoint.get();
    return endpoint.call<Answer>(call, timeoutMs);
  }
}

/** Source: containerd client, Container.Delete. */
function isTaskRunning(error: unknown): boolean {
  return (
    isAppError(error, "CRI_FAILED") &&
    error.details["status"] === "FAILED_PRECONDITION" &&
    String(error.details["reason"]).includes("cannot delete running task")
  );
}

async function ignoreNotFound<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isAppError(error, "CRI_FAILED") && error.details["status"] === "NOT_FOUND")
      return undefined;
    throw error;
  }
}
