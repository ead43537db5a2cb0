// SPDX-License-Identifier: Apache-2.0
// Environment for tests of the whole component: an API server, a virt-controller, and a VM.
import type { KubeClient } from "@patchbay/kube";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { startController, type Controller } from "./controllers.ts";
import { Scene } from "./cluster-actors.ts";

/** API server for the tests of a file. The first hook sets its members. */
export interface ServerStage {
  server: TestServer;
  admin: KubeClient;
}

/** Environment that also has a virt-controller and a scene for each test. */
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

/** Registers hooks for a server and, for each test, a virt-controller and the VM `vm1`. */
export function useStage(): Stage {
  // The hooks set the members before a test reads them.
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
