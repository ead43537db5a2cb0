// SPDX-License-Identifier: Apache-2.0
// The environment for tests of the whole component: an API server, a virt-controller, and a VM.
import type { KubeClient } from "@patchbay/kube";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { startController, type Controller } from "./controllers.ts";
import { Scene } from "./cluster-actors.ts";

/** An API server for the tests of a file. Its members are set when the first hook has run. */
export interface ServerStage {
  server: TestServer;
  admin: KubeClient;
}

/** Adds a virt-controller and a scene for each test. */
export interface Stage extends ServerStage {
  controller: Controller;
  scene: Scene;
}

function serve(stage: ServerStage): void {
  beforeAll(async () => {
    stage.server = await startTestServer();
    stage.admin = await stage.server.client("kubernetes-admin", ["system:masters"]);
  });
  afterAll(async () => {
    await stage.server.close();
  });
}

/** Registers hooks that start and close the server. */
export function useServer(): ServerStage {
  const stage = {} as ServerStage;
  serve(stage);
  return stage;
}

/** Registers hooks for a server, and for each test a virt-controller and the VM `vm1`. */
export function useStage(): Stage {
  // The hooks fill it before a test reads it.
  const stage = {} as Stage;
  serve(stage);
  beforeEach(async () => {
    stage.controller = await startController(stage.server);
    stage.scene = new Scene(stage.admin, "vm1");
  });
  afterEach(async () => {
    await stage.scene.end();
    await stage.controller.stop();
  });
  return stage;
}
