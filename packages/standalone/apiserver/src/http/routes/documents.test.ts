// SPDX-License-Identifier: Apache-2.0
// Documents that the server has about itself: health, discovery, OpenAPI, keys.
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ReceivedAnswer, SentRequest } from "../../testing/memory-network.ts";
import { type TestApp, json, startTestApp } from "../../testing/test-app.ts";

let app: TestApp;

beforeAll(async () => {
  app = await startTestApp();
});

afterAll(async () => {
  await app.server.close();
});

function send(path: string, sent: SentRequest = {}): Promise<ReceivedAnswer> {
  return app.send(path, sent);
}

describe("documents", () => {
  test.each<{ path: string; want: object }>([
    {
      path: "/",
      want: { paths: expect.arrayContaining(["/api", "/apis", "/version"]) as unknown },
    },
    { path: "/version", want: { major: "1", minor: "30", platform: "linux" } },
    {
      path: "/api",
      want: {
        kind: "APIVersions",
        versions: ["v1"],
        serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress: "test" }],
      },
    },
    { path: "/apis", want: { kind: "APIGroupList", apiVersion: "v1" } },
    {
      path: "/apis/test.io",
      want: {
        kind: "APIGroup",
        apiVersion: "v1",
        name: "test.io",
        versions: [
          { groupVersion: "test.io/v2", version: "v2" },
          { groupVersion: "test.io/v1", version: "v1" },
        ],
        preferredVersion: { groupVersion: "test.io/v2", version: "v2" },
      },
    },
    { path: "/apis/far.io", want: { name: "far.io" } },
    { path: "/openapi/v2", want: { swagger: "2.0" } },
    {
      path: "/.well-known/openid-configuration",
      want: {
        issuer: "https://kubernetes.default.svc.cluster.local",
        jwks_uri: "https://test/openid/v1/jwks",
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["ES256"],
      },
    },
    { path: "/openid/v1/jwks", want: { keys: [{ alg: "ES256", use: "sig", kty: "EC" }] } },
  ])("serves $path as JSON", async ({ path, want }) => {
    const { code, headers, text } = await send(path);
    expect(code).toBe(200);
    expect(headers["content-type"]).toMatch(/^application\/(jwk-set\+)?json/);
    expect(json(text)).toMatchObject(want);
  });

  test.each([
    { path: "/healthz", want: "ok" },
    { path: "/livez", want: "ok" },
    { path: "/readyz/ping", want: "ok" },
    { path: "/readyz/store", want: "ok" },
    {
      path: "/healthz?verbose",
      want: "[+]ping ok\n[+]log ok\n[+]store ok\nhealthz check passed\n",
    },
    {
      path: "/readyz?verbose&exclude=log&exclude=x",
      want: '[+]ping ok\n[+]log excluded: ok\n[+]store ok\nwarn: some health checks cannot be excluded: no matches for "x"\nreadyz check passed\n',
    },
  ])("reports health at $path", async ({ path, want }) => {
    const { code, headers, text } = await send(path);
    expect([code, headers["content-type"], text]).toEqual([200, "text/plain; charset=utf-8", want]);
  });

  test("lists the group versions with their resources in discovery", async () => {
    const core = json((await send("/api/v1")).text);
    expect(core).toMatchObject({ kind: "APIResourceList", groupVersion: "v1" });
    expect(core["resources"]).toContainEqual({
      name: "pods/eviction",
      singularName: "",
      namespaced: true,
      kind: "Eviction",
      group: "policy",
      version: "v1",
      verbs: ["create"],
    });
    const { groupVersion, resources } = json((await send("/apis/test.io/v1")).text);
    expect(groupVersion).toBe("test.io/v1");
    expect(resources).toMatchObject([
      { name: "widgets", singularName: "widget", namespaced: true, kind: "Widget" },
      { name: "widgets/status", singularName: "", namespaced: true, kind: "Widget" },
      { name: "widgets/scale", kind: "Scale", group: "autoscaling", version: "v1" },
    ]);
  });

  test.each(["/api/v9", "/apis/none.io", "/apis/test.io/v9"])(
    "returns 404 for %s",
    async (path) => {
      const { code, text } = await send(path);
      expect(code).toBe(404);
      expect(json(text)).toMatchObject({ kind: "Status", reason: "NotFound" });
    },
  );

  test("forwards discovery of an aggregated version to its server", async () => {
    expect((await send("/apis/far.io/v1")).text).toBe("from afar");
    expect(app.forwarded.at(-1)).toBe("admin /apis/far.io/v1");
  });

  test("returns aggregated discovery to clients that accept it", async () => {
    const accept =
      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    const { headers, text } = await send("/apis", { headers: { accept } });
    expect(headers["content-type"]).toBe(
      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    );
    const list = json(text);
    expect(list).toMatchObject({
      kind: "APIGroupDiscoveryList",
      apiVersion: "apidiscovery.k8s.io/v2",
    });
    expect(list["items"]).toContainEqual({
      metadata: { name: "far.io" },
      versions: [
        {
          version: "v1",
          freshness: "Current",
          resources: [
            {
              resource: "stars",
              responseKind: { group: "far.io", version: "v1", kind: "Star" },
              scope: "Cluster",
              singularResource: "",
              verbs: ["get"],
            },
          ],
        },
      ],
    });
    const core = await send("/api", { headers: { accept: accept.replace("v=v2", "v=v2beta1") } });
    expect(json(core.text)).toMatchObject({
      apiVersion: "apidiscovery.k8s.io/v2beta1",
      items: [{ metadata: {}, versions: [{ version: "v1" }] }],
    });
  });

  test("sends fields as YAML and with line breaks on request", async () => {
    const yaml = await send("/api", { headers: { accept: "application/yaml" } });
    expect(yaml.headers["content-type"]).toBe("application/yaml");
    expect(yaml.text).toContain("kind: APIVersions\n");
    expect((await send("/api?pretty=true")).text).toContain('{\n  "kind"');
    expect((await send("/api?pretty=false")).text).toContain('{"kind"');
  });
});

describe("OpenAPI documents", () => {
  async function addressOf(path: string): Promise<string> {
    const { paths } = json((await send("/openapi/v3")).text) as {
      paths: Record<string, { serverRelativeURL: string }>;
    };
    return paths[path]?.serverRelativeURL ?? "";
  }

  test("the index names the documents of this server and of available aggregated servers", async () => {
    expect(await addressOf("apis/test.io/v1")).toMatch(/^\/openapi\/v3\/apis\/test\.io\/v1\?hash=/);
    expect(await addressOf("apis/far.io/v1")).toBe("/openapi/v3/apis/far.io/v1?hash=F");
  });

  test("a document requested by its hash may be cached", async () => {
    const address = await addressOf("api/v1");
    const { code, headers, text } = await send(address);
    expect(code).toBe(200);
    expect(headers["cache-control"]).toBe("public, immutable, max-age=31536000");
    expect(json(text)).toMatchObject({ openapi: "3.0.0" });
    const plain = await send("/openapi/v3/apis/test.io/v1");
    expect(plain.headers["cache-control"]).toBe("no-cache, private");
  });

  test("redirects a client with an outdated hash to the document's address", async () => {
    const { code, headers } = await send("/openapi/v3/apis/test.io/v1?hash=OLD");
    expect([code, headers.location]).toEqual([301, await addressOf("apis/test.io/v1")]);
    expect((await send("/openapi/v3/apis/test.io/v1?timeout=32s")).code).toBe(200);
  });

  test("does not serve documents of other servers or unknown documents", async () => {
    expect((await send("/openapi/v3/apis/none.io/v1")).code).toBe(404);
    expect((await send("/openapi/v3/apis/far.io/v1")).code).toBe(404);
  });

  test("has an ETag, is compressed on request, and is not sent again if unchanged", async () => {
    const path = "/openapi/v3/apis/test.io/v1";
    const whole = await send(path);
    const tag = String(whole.headers.etag);
    expect(tag).toMatch(/^"[0-9A-F]{32}"$/);
    expect(whole.headers.vary).toBe("Accept-Encoding, Accept");
    expect(whole.headers["content-encoding"]).toBeUndefined();
    expect(whole.headers["content-length"]).toBe(String(whole.bytes.length));
    const packed = await send(path, { headers: { "accept-encoding": "gzip" } });
    expect(packed.headers["content-encoding"]).toBe("gzip");
    expect(gunzipSync(packed.bytes).toString()).toBe(whole.text);
    for (const known of [tag, `W/${tag}`, `"x", ${tag}`, "*"]) {
      const again = await send(path, { headers: { "if-none-match": known } });
      expect([known, again.code, again.text]).toEqual([known, 304, ""]);
    }
    expect((await send(path, { headers: { "if-none-match": '"x"' } })).code).toBe(200);
  });

  test("version 2 is served as protobuf on request", async () => {
    const type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    const accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const { code, headers } = await send("/openapi/v2", { headers: { accept } });
    expect([code, headers["content-type"]]).toEqual([200, type]);
  });
});
