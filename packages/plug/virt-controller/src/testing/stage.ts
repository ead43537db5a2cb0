// SPDX-License-Identifier: Apache-2.0
// What every test of the whole component has around it: an API server, a virt-controller, and a VM to be.
import type { KubeClient } from "@patchbay/kube";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { startController, type Controller } from "./controllers.ts";
import { Scene } from "./scene.ts";

/** An API server for the tests of a file; its members are there from the first hook on. */
export interface ServerStage {
  server: TestServer;
  /** Its administrator. */
  admin: KubeClient;
}

/** With a virt-controller and a scene of its own for each test. */
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

/** Registers the hooks that start the server and close it. */
export function useServer(): ServerStage {
  // The hooks fill it before a test looks at it.
  const stage = {} as ServerStage;
  serve(stage);
  return stage;
}

/** Registers the hooks for a server, and for each test one virt-controller and the VM `vm1`. */
export function useStage(): Stage {
  // As above.
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
