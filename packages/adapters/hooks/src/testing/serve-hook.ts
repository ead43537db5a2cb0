// SPDX-License-Identifier: Apache-2.0
// A hook that listens at a socket, as a sidecar does: the server's half of the protocol.
import { Server, ServerCredentials, type sendUnaryData, type ServerUnaryCall } from "@grpc/grpc-js";
import type { HookInfo, HookVersion } from "@patchbay/core/interfaces";
import { loadCallbacks, loadInfo } from "../child.ts";

/** What a hook does. */
export interface ServedHook {
  readonly info: HookInfo;
  /** The domain as it is to be. @throws what the hook fails with */
  readonly onDefineDomain?: (domainXml: string, vmi: string) => string | Promise<string>;
  /** cloud-init's data as it is to be. */
  readonly preCloudInitIso?: (input: CloudInitTexts) => CloudInitTexts;
  readonly shutdown?: () => void;
}

/** Two forms of cloud-init's data, both JSON. */
export interface CloudInitTexts {
  readonly data: string;
  readonly noCloudSource: string;
}

interface CloudInitParams {
  readonly cloudInitData: Buffer;
  readonly cloudInitNoCloudSource: Buffer;
}

function preCloudInitIso({ preCloudInitIso: change = (input) => input }: ServedHook) {
  return (call: ServerUnaryCall<CloudInitParams, object>, answer: sendUnaryData<object>): void => {
    const { cloudInitData, cloudInitNoCloudSource } = call.request;
    const { data, noCloudSource } = change({
      data: cloudInitData.toString("utf8"),
      noCloudSource: cloudInitNoCloudSource.toString("utf8"),
    });
    answer(null, {
      cloudInitData: Buffer.from(data),
      cloudInitNoCloudSource: Buffer.from(noCloudSource),
    });
  };
}

interface DefineParams {
  readonly domainXML: Buffer;
  readonly vmi: Buffer;
}

const VERSIONS: readonly HookVersion[] = ["v1alpha2", "v1alpha3"];

function define({ onDefineDomain = (xml) => xml }: ServedHook) {
  return (call: ServerUnaryCall<DefineParams, object>, answer: sendUnaryData<object>): void => {
    const { domainXML, vmi } = call.request;
    const answered = new Promise<string>((resolve) => {
      resolve(onDefineDomain(domainXML.toString("utf8"), vmi.toString("utf8")));
    });
    answered.then(
      (xml) => {
        answer(null, { domainXML: Buffer.from(xml) });
      },
      (error: unknown) => {
        answer(error instanceof Error ? error : new Error(String(error)));
      },
    );
  };
}

/** Listens at the path until it is closed. */
export async function serveHook(path: string, hook: ServedHook): Promise<{ close(): void }> {
  const server = new Server();
  server.addService(loadInfo(), {
    Info: (_call: unknown, answer: sendUnaryData<object>) => {
      answer(null, hook.info);
    },
  });
  for (const version of VERSIONS) {
    server.addService(loadCallbacks(version), {
      OnDefineDomain: define(hook),
      PreCloudInitIso: preCloudInitIso(hook),
      Shutdown: (_call: unknown, answer: sendUnaryData<object>) => {
        hook.shutdown?.();
        answer(null, {});
      },
    });
  }
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => {
    if (error === null) resolve(undefined);
    else reject(error);
  });
  await promise;
  return {
    close: () => {
      server.forceShutdown();
    },
  };
}
