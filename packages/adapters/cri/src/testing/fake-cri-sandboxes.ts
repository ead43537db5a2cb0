// SPDX-License-Identifier: Apache-2.0
// A runtime that only lists sandboxes, for tests that create network namespaces themselves.
import { isJsonObject } from "@patchbay/api/json";
import type { Sandbox } from "@patchbay/core/interfaces";
import { grpcError, ScriptedRuntime } from "./scripted-runtime.ts";

const UID_LABEL = "io.kubernetes.pod.uid";

export class FakeCriSandboxes {
  readonly #server = new ScriptedRuntime(["runtime.v1.RuntimeService"]);
  readonly #sandboxes = new Map<string, Sandbox>();
  /** Whether calls fail as if the runtime was down. */
  isAway = false;

  private constructor() {
    const { answers } = this.#server;
    answers["Version"] = () => ({ runtimeName: "told", runtimeVersion: "1" });
    answers["ListPodSandbox"] = ({ filter }) => ({
      items: this.#list(findUid(filter)).map(toWire),
    });
    answers["PodSandboxStatus"] = ({ podSandboxId }) => {
      const found = [...this.#sandboxes.values()].find(({ id }) => id === podSandboxId);
      return found === undefined ? {} : { status: toWire(found), info: buildInfo(found) };
    };
    for (const [method, answer] of Object.entries(answers)) {
      answers[method] = (request) => {
        if (this.isAway) throw grpcError("UNAVAILABLE", "it is away");
        return answer(request);
      };
    }
  }

  /** Resolves when the server listens. */
  static async start(): Promise<FakeCriSandboxes> {
    const sandboxes = new FakeCriSandboxes();
    await sandboxes.#server.start();
    return sandboxes;
  }

  get endpoint(): string {
    return this.#server.address;
  }

  take(podUid: string): void {
    this.#sandboxes.delete(podUid);
  }

  /** Replaces the pod's previous sandbox. */
  put(sandbox: Sandbox): void {
    this.#sandboxes.set(sandbox.podUid, sandbox);
  }

  close(): void {
    this.#server.close();
  }

  #list(uid: string | undefined): readonly Sandbox[] {
    if (uid === undefined) return [...this.#sandboxes.values()];
    const found = this.#sandboxes.get(uid);
    return found === undefined ? [] : [found];
  }
}

function findUid(filter: unknown): string | undefined {
  const labels = isJsonObject(filter) ? filter["labelSelector"] : undefined;
  const uid = isJsonObject(labels) ? labels[UID_LABEL] : undefined;
  return typeof uid === "string" ? uid : undefined;
}

function toWire({ id, podUid: uid, pod }: Sandbox): object {
  const metadata = { ...pod, uid, attempt: 0 };
  const state = "SANDBOX_READY";
  return { id, metadata, state, createdAt: "1", labels: { [UID_LABEL]: uid }, annotations: {} };
}

function buildInfo({ netnsPath: path }: Sandbox): Readonly<Record<string, string>> {
  const namespaces = [{ type: "network", path }];
  return { info: JSON.stringify({ runtimeSpec: { linux: { namespaces } } }) };
}
