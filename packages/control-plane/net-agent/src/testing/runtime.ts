// SPDX-License-Identifier: Apache-2.0
// An in-memory container runtime that calls the agent of a World as its CNI plugin.
import { parseJson } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import { handleRequest, type RuntimeResponse } from "../runtime/serve.ts";
import type { RuntimeDeps } from "../runtime/deps.ts";
import { Life } from "./life.ts";
import type { World } from "./world.ts";

/** Options of a call; the defaults are those of an ADD for the World's pod. */
export interface CallOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly config?: object;
  /** Path and query of the request; by default those that patchbay-cni uses. */
  readonly url?: string;
  readonly method?: string;
}

export class FakeRuntime {
  readonly #world: World;
  /** Default network; undefined if the node has none. */
  network: NetworkConfigList | undefined = {
    cniVersion: "1.0.0",
    name: "everyone",
    plugins: [{ type: "bridge" }],
  };
  readonly woken: string[] = [];

  constructor(world: World) {
    this.#world = world;
    world.readDefaultNetwork = () => this.#read();
  }

  /** Calls the plugin for the sandbox `box-uid-1`. The agent dies at the call `dieAt`. */
  async call(
    command: string,
    { env = {}, config = {}, url = "/cni?answer=plugin", method = "POST" }: CallOptions = {},
    dieAt = Number.POSITIVE_INFINITY,
  ): Promise<RuntimeResponse & { readonly parsed: unknown }> {
    const text = JSON.stringify({ cniVersion: "1.0.0", name: "patchbay", ...config });
    const body = JSON.stringify({
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: "box-uid-1",
        CNI_IFNAME: "eth0",
        CNI_NETNS: "/run/netns/box-uid-1",
        CNI_ARGS: "K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=pod;K8S_POD_UID=uid-1",
        ...env,
      },
      config: Buffer.from(text).toString("base64"),
    });
    const response = await handleRequest({ method, url, body }, await this.deps(new Life(dieAt)));
    await this.#world.sync();
    return { ...response, parsed: parseJson(response.body) };
  }

  async deps(life: Life): Promise<RuntimeDeps> {
    return {
      ...(await this.#world.deps(life)),
      socketPath: "/run/cni.sock",
      nodeName: "node",
      readDefaultNetwork: () => this.#read(),
      onServing: () => Promise.resolve(),
      onEnd: () => Promise.resolve(),
      wake: (key) => this.woken.push(key),
    };
  }

  #read(): Promise<NetworkConfigList> {
    if (this.network !== undefined) return Promise.resolve(this.network);
    return Promise.reject(new AppError("CNI_DEFAULT_NETWORK_MISSING", { reason: "gone" }));
  }
}
