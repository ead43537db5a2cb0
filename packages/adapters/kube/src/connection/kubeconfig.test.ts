// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { loadKubeConfig } from "./kubeconfig.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-kubeconfig-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

function write(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** A kubeconfig with one context; the lines belong to cluster and user. */
function buildKubeconfig(cluster: readonly string[], user: readonly string[]): string {
  const indent = (lines: readonly string[]): string =>
    lines.map((line) => `    ${line}`).join("\n");
  return `apiVersion: v1
kind: Config
current-context: one
contexts:
- name: one
  context: { cluster: c, user: u, namespace: blue }
clusters:
- name: c
  cluster:
${indent(["server: https://example.test:6443/", ...cluster])}
users:
- name: u
  user:
${indent(user)}
`;
}

describe("a kubeconfig", () => {
  test("with all fields", async () => {
    const cluster = [
      `certificate-authority-data: ${base64("CA")}`,
      "tls-server-name: kubernetes",
      "proxy-url: http://proxy.test:3128",
    ];
    const user = [
      `client-certificate-data: ${base64("CERT")}`,
      `client-key-data: ${base64("KEY")}`,
      "token: abc",
      "as: someone",
    ];
    const config = await loadKubeConfig({
      kubeconfig: write("config", buildKubeconfig(cluster, user)),
    });
    expect(config).toMatchObject({
      server: "https://example.test:6443",
      namespace: "blue",
      tlsServerName: "kubernetes",
      proxyUrl: "http://proxy.test:3128",
      skipTlsVerify: false,
      impersonate: "someone",
    });
    expect(await config.readCredentials()).toEqual({
      ca: "CA",
      cert: "CERT",
      key: "KEY",
      token: "abc",
    });
  });

  test("with references to files, which are read each time", async () => {
    write("ca.pem", "CA");
    write("cert.pem", "CERT");
    write("key.pem", "KEY");
    write("token", "one\n");
    const text = buildKubeconfig(
      ["certificate-authority: ca.pem"],
      ["client-certificate: cert.pem", "client-key: key.pem", "tokenFile: token"],
    );
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    expect(await config.readCredentials()).toEqual({
      ca: "CA",
      cert: "CERT",
      key: "KEY",
      token: "one",
    });
    write("token", "two\n");
    write("cert.pem", "CERT2");
    expect(await config.readCredentials()).toMatchObject({ token: "two", cert: "CERT2" });
  });

  test("with user and password", async () => {
    const text = buildKubeconfig(
      ["insecure-skip-tls-verify: true"],
      ["username: a", "password: b"],
    );
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    expect(config.skipTlsVerify).toBe(true);
    expect(await config.readCredentials()).toEqual({ username: "a", password: "b" });
  });

  test("with an exec plugin", async () => {
    const status = { token: "from-plugin", clientCertificateData: "CERT", clientKeyData: "KEY" };
    const credential = JSON.stringify({ status });
    const text = buildKubeconfig(
      [],
      [
        "exec:",
        "  apiVersion: client.authentication.k8s.io/v1",
        "  command: printf",
        `  args: ['%s', '${credential}']`,
      ],
    );
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    expect(await config.readCredentials()).toStrictEqual({
      cert: "CERT",
      key: "KEY",
      token: "from-plugin",
    });
  });

  test("with only a server", async () => {
    const text = `current-context: two
contexts:
- { name: one, context: { cluster: none, user: u } }
- { name: two, context: { cluster: c2, user: somebody-else } }
clusters:
- { name: c1, cluster: { server: https://one.test } }
- { name: c2, cluster: { server: https://two.test } }
users:
- { name: u, user: { token: abc, tokenFile: token, username: a, as: b } }
`;
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    expect(config).toStrictEqual({
      server: "https://two.test",
      skipTlsVerify: false,
      readCredentials: expect.any(Function) as unknown,
    });
    expect(await config.readCredentials()).toStrictEqual({});
  });

  test("with several users, including a user with a token file", async () => {
    const text = buildKubeconfig([], ["token: mine"]).replace(
      "users:\n",
      "users:\n- { name: other, user: { tokenFile: none } }\n",
    );
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    expect(await config.readCredentials()).toStrictEqual({ token: "mine" });
  });

  test("with empty strings, which count as unset", async () => {
    const text = buildKubeconfig([], ["token: ''", "username: a"]);
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    expect(await config.readCredentials()).toStrictEqual({ username: "a" });
  });

  test("whose plugin runs once, and again when its credentials are rejected", async () => {
    const runs = join(directory, "runs");
    const script = `echo run >> ${runs}; echo '{"status":{"token":"t"}}'`;
    const user = ["exec:", "  command: sh", `  args: ['-c', ${JSON.stringify(script)}]`];
    const config = await loadKubeConfig({ kubeconfig: write("config", buildKubeconfig([], user)) });
    await config.readCredentials();
    await config.readCredentials();
    expect(readFileSync(runs, "utf8")).toBe("run\n");
    await config.readCredentials(true);
    expect(readFileSync(runs, "utf8")).toBe("run\nrun\n");
  });

  test.each([
    { name: "does not exist", text: undefined, reason: "ENOENT" },
    { name: "is not YAML", text: "{", reason: "" },
    { name: "is not a mapping", text: "- a", reason: "it is not a mapping" },
    { name: "has no current context", text: "kind: Config", reason: "it names no current-context" },
    {
      name: "names a missing context",
      text: "current-context: x",
      reason: "there is no context x",
    },
    { name: "is empty", text: "", reason: "it is not a mapping" },
    { name: "is a single word", text: "word", reason: "it is not a mapping" },
    {
      name: "has an empty current context",
      text: "current-context: ''",
      reason: "it names no current-context",
    },
    {
      name: "names a missing cluster",
      text: buildKubeconfig([], ["token: a"]).replace("cluster: c,", "cluster: x,"),
      reason: "there is no cluster x",
    },
    ...["name", "cluster", "cluster.server"].map((field) => ({
      name: `has a cluster without ${field}`,
      text: JSON.stringify({
        "current-context": "one",
        contexts: [{ name: "one", context: { cluster: "c" } }],
        clusters: [
          { cluster: { server: "https://a.test" }, name: "c" },
          field === "name"
            ? { cluster: {} }
            : { name: "d", ...(field === "cluster" ? {} : { cluster: {} }) },
        ],
      }),
      reason: `clusters[1].${field} is missing`,
    })),
    {
      name: "has a context without a cluster",
      text: "{ current-context: one, contexts: [{ name: one, context: {} }] }",
      reason: "contexts[0].context.cluster is missing",
    },
    {
      name: "has a user without a name",
      text: buildKubeconfig([], ["token: a"]).replace("- name: u\n ", "-\n "),
      reason: "users[0].name is missing",
    },
    {
      name: "uses an unsupported authentication method",
      text: buildKubeconfig([], ["auth-provider: { name: gcp }"]),
      reason: "auth-provider is not supported",
    },
  ])("that $name is rejected with the reason", async ({ text, reason }) => {
    const path = text === undefined ? join(directory, "none") : write("config", text);
    await expect(loadKubeConfig({ kubeconfig: path })).rejects.toMatchObject({
      code: "KUBE_CONFIG_INVALID",
      message: expect.stringContaining(reason) as string,
      details: { path },
    });
  });

  test("that names a missing file is rejected when the credentials are read", async () => {
    const text = buildKubeconfig(["certificate-authority: none.pem"], ["token: a"]);
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    await expect(config.readCredentials()).rejects.toMatchObject({
      code: "KUBE_CONFIG_INVALID",
      details: { path: join(directory, "none.pem") },
    });
  });

  test("whose plugin issued expired credentials runs it again", async () => {
    const runs = join(directory, "runs");
    const status = `{"token":"t","expirationTimestamp":"2001-02-03T04:05:06Z"}`;
    const script = `echo run >> ${runs}; echo '{"status":${status}}'`;
    const user = ["exec:", "  command: sh", `  args: ['-c', ${JSON.stringify(script)}]`];
    const config = await loadKubeConfig({ kubeconfig: write("config", buildKubeconfig([], user)) });
    await config.readCredentials();
    await config.readCredentials();
    expect(readFileSync(runs, "utf8")).toBe("run\nrun\n");
  });

  test("whose plugin gets its variables in addition to this process's variables", async () => {
    vi.stubEnv("PLUGIN_ONE", "1");
    const script = `printf '{"status":{"token":"%s%s"}}' "$PLUGIN_ONE" "$PLUGIN_TWO"`;
    const user = [
      "exec:",
      "  command: sh",
      `  args: ['-c', ${JSON.stringify(script)}]`,
      "  env: [{ name: PLUGIN_TWO, value: '2' }]",
    ];
    const config = await loadKubeConfig({ kubeconfig: write("config", buildKubeconfig([], user)) });
    expect(await config.readCredentials()).toStrictEqual({ token: "12" });
  });

  test.each([
    { name: "fails", command: "sh", script: "echo no login >&2; exit 3", want: "no login" },
    { name: "is missing", command: "/none/plugin", script: "", want: "ENOENT" },
    {
      name: "prints text that is not JSON",
      command: "sh",
      script: "echo token",
      want: "Unexpected token",
    },
  ])("whose plugin $name is rejected with the reason", async ({ command, script, want }) => {
    const exec = { command, args: ["-c", script] };
    const text = buildKubeconfig([], [`exec: ${JSON.stringify(exec)}`]);
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    await expect(config.readCredentials()).rejects.toMatchObject({
      code: "KUBE_CONFIG_INVALID",
      details: { reason: expect.stringMatching(`^exec plugin: .*${want}`) as string },
    });
  });

  test("whose plugin fails is rejected", async () => {
    const text = buildKubeconfig([], ["exec: { command: 'false' }"]);
    const config = await loadKubeConfig({ kubeconfig: write("config", text) });
    await expect(config.readCredentials()).rejects.toMatchObject({
      code: "KUBE_CONFIG_INVALID",
      details: {
        path: join(directory, "config"),
        reason: expect.stringMatching(/^exec plugin: /) as string,
      },
    });
  });
});

describe("without a kubeconfig", () => {
  test("a process outside a cluster gets an error that requests a kubeconfig", async () => {
    vi.stubEnv("KUBERNETES_SERVICE_HOST", undefined);
    await expect(loadKubeConfig({})).rejects.toMatchObject({
      code: "KUBE_CONFIG_INVALID",
      message: expect.stringContaining("--kubeconfig") as string,
    });
  });

  test("a process in a pod uses the pod's account, whose token is read each time", async () => {
    vi.stubEnv("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    vi.stubEnv("KUBERNETES_SERVICE_PORT", "443");
    write("namespace", "blue\n");
    write("ca.crt", "CA");
    write("token", "one\n");
    const config = await loadKubeConfig({ accountDirectory: directory });
    expect(config).toMatchObject({
      server: "https://10.0.0.1:443",
      namespace: "blue",
      skipTlsVerify: false,
    });
    expect(await config.readCredentials()).toEqual({ ca: "CA", token: "one" });
    write("token", "two\n");
    expect(await config.readCredentials()).toEqual({ ca: "CA", token: "two" });
  });
});
