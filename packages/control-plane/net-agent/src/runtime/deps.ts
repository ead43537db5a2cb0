// SPDX-License-Identifier: Apache-2.0
import type { Deps } from "../deps.ts";

export interface RuntimeOptions {
  /** Absolute path of the socket. The agent creates the socket's directory with access for root only. */
  readonly socketPath: string;
  readonly nodeName: string;
  /** PID of a process in the runtime's mount namespace, used to open the runtime's files. Unset if the agent runs in that namespace. */
  readonly hostProcess?: number;
  readonly onServing: () => Promise<void>;
  readonly onEnd: () => Promise<void>;
}

export interface RuntimeDeps extends Deps, RuntimeOptions {
  readonly readDefaultNetwork: NonNullable<Deps["readDefaultNetwork"]>;
  wake(key: string): void;
}
