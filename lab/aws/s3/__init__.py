"""What moto's S3 lacks: authorization, presigned URLs that end, bucket policies' conditions."""
