// SPDX-License-Identifier: Apache-2.0
// kubectl and the API server accept each kubectl command and manifest in the users' and operators' pages. Each page has a server of its own
// with the objects that the pages use as examples, but no node.
import { execFile } from "node:child_process";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { customResourceDefinitions } from "@patchbay/api";
import { bridgeNetworkManifest, eventually, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  findBlocks,
  findStatements,
  listPages,
  type ShownStatement,
} from "../../docs/code-blocks.ts";
import { findListed, LISTED_COMMANDS } from "../../docs/listed-commands.ts";
import {
  startKubectlSession,
  type CommandResult,
  type KubectlSession,
} from "../apiserver/kubectl/session.ts";

const ROOT = join(import.meta.dirname, "../../..");
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DATA_VOLUMES = "packages/common/manifests/standalone/data-volumes.yaml";
const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1";
/** kubectl waits here for pods that no node runs. */
const WAITS = /rollout status|kubectl wait/;

/** Errors about a missing node, virt-api, Prometheus Operator and kinds of later API servers, and about placeholders such as POD or alpha. */
const EXPECTED_ERRORS: readonly RegExp[] = [
  /\((NotFound|AlreadyExists)\)|"[^"]+" not found|no rollout history found|No resources found|no matching resources found/,
  /timed out waiting for the condition|exceeded its progress deadline/,
  /could not find the requested resource$|doesn't have a resource type "(resourceclaims?|ipamclaims)"/,
  /no matches for kind "(ServiceMonitor|PrometheusRule|ValidatingAdmissionPolicy(Binding)?)"/,
];

function isKubectl(command: readonly string[]): boolean {
  return command[0] === "kubectl" && findListed(command) === undefined;
}

/** Whether the statement runs kubectl, and otherwise only programs that read and print. */
function isRunHere({ commands }: ShownStatement): boolean {
  const isFilter = ([program = ""]: readonly string[]): boolean =>
    ["echo", "grep", "printf"].includes(program);
  return commands.some(isKubectl) && commands.every((each) => isKubectl(each) || isFilter(each));
}

/** Requests to virt-api are part of docs/add-a-nic.md, which runs on a machine. */
const statements = findStatements(listPages()).filter(
  (each) => isRunHere(each) && !each.text.includes("--raw /apis/subresources"),
);
const manifests = listPages()
  .flatMap(findBlocks)
  .filter(({ kind }) => kind === "manifest");
const pages = [...new Set([...statements, ...manifests].map(({ document }) => document))];

function runShell({ env, directory }: KubectlSession, text: string): Promise<CommandResult> {
  const { promise, resolve } = Promise.withResolvers<CommandResult>();
  const argv = WAITS.test(text) ? ["3", "bash", "-c", text] : ["120", "bash", "-c", text];
  execFile("timeout", argv, { env, cwd: directory }, (error, out, err) => {
    resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err });
  });
  return promise;
}

/** Release manifests and README's manifest, as the pages tell users to save them. */
async function writeFiles(session: KubectlSession): Promise<void> {
  for (const name of ["crds", "docs", "packages"]) {
    symlinkSync(join(ROOT, name), join(session.directory, name));
  }
  const shown =
    /```yaml\n([^]*?)```/.exec(readFileSync(join(ROOT, "README.md"), "utf8"))?.[1] ?? "";
  writeFileSync(join(session.directory, "vm.yaml"), shown);
  const folders = ["packages/common/manifests/base", "packages/common/manifests/net-agent-only"];
  for (const [index, name] of ["patchbay.yaml", "net-agent.yaml"].entries()) {
    const { out } = await session.kubectl("kustomize", folders[index] ?? "");
    writeFileSync(join(session.directory, name), out);
  }
  symlinkSync(join(ROOT, "docs/examples/add-a-nic"), join(session.directory, "fleet"));
}

async function deleteWebhooks({ api }: KubectlSession): Promise<void> {
  for (const kind of ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]) {
    await api.delete(`${WEBHOOKS}/${kind}`);
  }
}

async function prepare(): Promise<KubectlSession> {
  const session = await startKubectlSession();
  for (const definition of customResourceDefinitions()) {
    await session.api.post(DEFINITIONS, definition);
  }
  const isServed = async (): Promise<true | undefined> =>
    (await session.api.get("/apis/kubevirt.io/v1/kubevirts")).code === 200 ? true : undefined;
  await eventually(isServed, { withinMs: 10_000 });
  await writeFiles(session);
  const installed = ["-k packages/common/manifests/base", `-f ${DATA_VOLUMES}`];
  for (const source of installed) {
    const { code, err } = await session.kubectl(`apply ${source}`);
    if (code !== 0) throw new Error(err);
  }
  await deleteWebhooks(session);
  const settings = { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", spec: {} };
  const named = { ...settings, metadata: { name: "kubevirt", namespace: "patchbay" } };
  const objects = [
    named,
    bridgeNetworkManifest("blue", "br-blue"),
    vmManifest({ name: "alpha", nics: [{ name: "default" }, { name: "blue", network: "blue" }] }),
  ];
  for (const object of objects) {
    const path = await session.write("object.json", object);
    const created = await session.kubectl("create -f", path);
    if (created.code !== 0) throw new Error(created.err);
  }
  return session;
}

describe.each(pages)("%s", (page) => {
  let session: KubectlSession;
  beforeAll(async () => {
    session = await prepare();
  });
  afterAll(async () => {
    await session.close();
  });

  test.each(manifests.filter(({ document }) => document === page))(
    "manifest in line $line",
    async ({ line, text }) => {
      const path = await session.write(`${String(line)}.yaml`, text);
      const { code, err } = await session.kubectl("apply --dry-run=server -f", path);
      expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
    },
  );

  test.each(statements.filter(({ document }) => document === page))(
    "line $line: $text",
    async ({ text }) => {
      await deleteWebhooks(session);
      const { code, err } = await runShell(session, text);
      // grep reports a missing line, and timeout the end of a wait, by its code alone.
      const isSilent = err.trim() === "" && (code === 1 || code === 124);
      const isExpected = isSilent || EXPECTED_ERRORS.some((pattern) => pattern.test(err.trim()));
      expect(code === 0 || isExpected ? "" : err).toBe("");
    },
  );
});

test("commands that no test can run here", () => {
  const reasons = LISTED_COMMANDS.filter(({ reason }) => reason !== undefined);
  expect(reasons.length).toBeGreaterThan(0);
  for (const { words, reason = "" } of reasons)
    console.log(`not possible here: ${words}: ${reason}`);
});
