"""grpcio with nothing but reflection: TF Serving's services by name, and grpc.health.v1."""

import sys
import time

import grpc
import numpy as np
import serve_process
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import weft.serve


class Service:
    """Calls by the descriptors that the server gives."""

    def __init__(self, channel, name):
        self.channel = channel
        self.pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        self.service = self.pool.FindServiceByName(name)

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def call(self, method, request, timeout=10, metadata=None):
        descriptor = self.service.FindMethodByName(method)
        answer = message_factory.GetMessageClass(descriptor.output_type)
        stub = self.channel.unary_unary(f"/{self.service.full_name}/{method}",
                                        request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=answer.FromString)
        return stub(request, timeout=timeout, metadata=metadata)

    def request(self, method):
        return message_factory.GetMessageClass(self.service.FindMethodByName(method).input_type)()


def main(folder):
    for version in (1, 2):
        weft.serve.export(lambda p, x: {"y": x * p["a"] + p["b"]}, {"a": np.float32(0.5), "b": np.float32(version)},
                          {"x": np.ones((1,), np.float32)}, f"{folder}/half", buckets=(1, 4))
    with serve_process.serving(f"--model=half={folder}/half", "--version_policy=all", "--version_label=half:old=1") as server:
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc}")
        names = ProtoReflectionDescriptorDatabase(channel).get_services()
        assert {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
                "inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(names), names
        health = health_pb2_grpc.HealthStub(channel)
        # Health follows readiness within a tenth of a second.
        ends = time.monotonic() + 5
        while health.Check(health_pb2.HealthCheckRequest(), timeout=5).status != health_pb2.HealthCheckResponse.SERVING:
            assert time.monotonic() < ends

        prediction = Service(channel, "tensorflow.serving.PredictionService")

        def predict(fill_tensor, label=None, **facts):
            request = prediction.request("Predict")
            request.model_spec.name = "half"
            if label:
                request.model_spec.version_label = label
            tensor = request.inputs["x"]
            tensor.dtype = 1
            fill_tensor(tensor)
            return prediction.call("Predict", request, **facts)

        def three(tensor):
            tensor.tensor_shape.dim.add(size=3)
            tensor.float_val.extend([0, 2, 4])

        def repeated(tensor):
            tensor.tensor_shape.dim.add(size=3)
            tensor.float_val.append(2)

        def content(tensor):
            tensor.tensor_shape.dim.add(size=2)
            tensor.tensor_content = np.array([2, 4], np.float32).tobytes()

        def values(response):
            return np.frombuffer(response.outputs["y"].tensor_content, np.float32).tolist()

        response = predict(three)
        assert values(response) == [2, 3, 4] and response.model_spec.version.value == 2, response
        assert values(predict(three, label="old")) == [1, 2, 3]
        assert values(predict(repeated)) == [3, 3, 3]
        assert values(predict(content, metadata=[("x-weft-priority", "high")])) == [3, 4]
        request = prediction.request("GetModelMetadata")
        request.model_spec.name = "half"
        request.metadata_field.append("signature_def")
        answer = prediction.call("GetModelMetadata", request)
        signatures = prediction.message("tensorflow.serving.SignatureDefMap")()
        assert answer.metadata["signature_def"].Unpack(signatures)
        assert signatures.signature_def["serving_default"].inputs["x"].tensor_shape.dim[0].size == -1

        def code_of(call):
            try:
                call()
            except grpc.RpcError as error:
                return error.code()
            return None

        def wrong(tensor):
            tensor.tensor_shape.dim.add(size=-3)

        assert code_of(lambda: predict(wrong)) == grpc.StatusCode.INVALID_ARGUMENT
        assert code_of(lambda: predict(three, label="none")) == grpc.StatusCode.NOT_FOUND
        assert code_of(lambda: predict(three, metadata=[("x-weft-priority", "urgent")])) == grpc.StatusCode.INVALID_ARGUMENT

        models = Service(channel, "tensorflow.serving.ModelService")
        request = models.request("GetModelStatus")
        request.model_spec.name = "half"
        versions = models.call("GetModelStatus", request).model_version_status
        assert [(v.version, v.state) for v in versions] == [(2, 30), (1, 30)], versions
        request = models.request("HandleReloadConfigRequest")
        config = request.config.model_config_list.config.add(name="half", base_path=f"{folder}/half")
        config.model_version_policy.specific.versions.append(1)
        assert models.call("HandleReloadConfigRequest", request).status.error_code == 0
        assert values(predict(three)) == [1, 2, 3]


if __name__ == "__main__":
    main(sys.argv[1])
